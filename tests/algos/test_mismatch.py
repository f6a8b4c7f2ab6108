import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.algos.mismatch import MismatchStats, mismatch_stats
from surefoot.types.errors import UsageError

NAN, INF = math.nan, math.inf


def of(differences: list[float]) -> MismatchStats:
    d_T = np.array(differences, dtype=np.float64)
    return mismatch_stats(d_T, np.zeros_like(d_T))


def test_worked_values() -> None:
    stats = of([0.1, -0.3])
    kl = ((math.exp(0.1) - 1.1) + (math.exp(-0.3) - 0.7)) / 2
    expected = MismatchStats(mean=0.2, p99=0.3, max=0.3, kl=kl, worst=1)
    assert (stats.mean, stats.p99, stats.max, stats.kl) == pytest.approx(
        (expected.mean, expected.p99, expected.max, expected.kl), rel=1e-12
    )
    assert stats.worst == 1


def test_an_outlier_hides_from_the_mean_and_not_from_max_and_worst() -> None:
    d_T = np.zeros(65536)
    d_T[4321] = -100.0
    stats = mismatch_stats(d_T, np.zeros(65536))
    assert stats.mean == pytest.approx(0.0015, abs=3e-5)
    assert (stats.p99, stats.max, stats.worst) == (0.0, 100.0, 4321)
    assert stats.kl == pytest.approx((math.exp(-100) - 1 + 100) / 65536, rel=1e-12)


@pytest.mark.parametrize(("count", "rank"), [(1, 1), (2, 2), (99, 99), (100, 99), (101, 100), (200, 198), (1000, 990)])
def test_p99_is_the_nearest_rank(count: int, rank: int) -> None:
    assert of([float(i) for i in range(count, 0, -1)]).p99 == rank


@settings(max_examples=50, deadline=None)
@given(differences=st.lists(st.floats(-30, 30), min_size=1, max_size=150))
def test_matches_plain_python(differences: list[float]) -> None:
    stats = of(differences)
    gaps = [abs(d) for d in differences]
    assert stats.mean == pytest.approx(math.fsum(gaps) / len(gaps), rel=1e-12, abs=1e-300)
    assert stats.max == max(gaps)
    assert stats.worst == gaps.index(max(gaps))
    assert stats.p99 == sorted(gaps)[math.ceil(99 * len(gaps) / 100) - 1]
    kl = math.fsum(math.expm1(d) - d for d in differences) / len(gaps)
    assert stats.kl == pytest.approx(kl, rel=1e-9, abs=1e-300)
    assert stats.kl >= 0


def test_small_differences_keep_their_kl() -> None:
    assert of([1e-7]).kl == pytest.approx(5e-15, rel=1e-6)


@pytest.mark.parametrize(
    ("differences", "greatest", "worst"),
    [([0.0, INF, 5.0], INF, 1), ([0.0, 5.0, -INF, -INF], INF, 2), ([INF, NAN, 0.0, NAN], NAN, 1), ([NAN], NAN, 0)],
)
def test_non_finite_is_reported_and_pointed_to(differences: list[float], greatest: float, worst: int) -> None:
    stats = of(differences)
    assert stats.max == pytest.approx(greatest, nan_ok=True)
    assert stats.worst == worst
    assert not math.isfinite(stats.mean)
    assert not math.isfinite(stats.kl)


@pytest.mark.parametrize("bad", [-INF, INF, NAN])
def test_two_equal_non_finite_logprobs_are_no_agreement(bad: float) -> None:
    stats = mismatch_stats(torch.tensor([0.0, bad]), torch.tensor([0.0, bad]))
    assert math.isnan(stats.max)
    assert stats.worst == 1


def test_a_finite_difference_too_great_for_exp_gives_infinite_kl_and_no_warning(
    recwarn: pytest.WarningsRecorder,
) -> None:
    stats = of([0.0, 1000.0])
    assert (stats.max, stats.kl) == (1000.0, INF)
    assert not recwarn.list


def test_no_tokens() -> None:
    assert of([]) == MismatchStats(mean=0.0, p99=0.0, max=0.0, kl=0.0, worst=-1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_torch_of_any_format_and_numpy_mix(dtype: torch.dtype) -> None:
    logprobs_T = torch.tensor([-1.5, -2.0], dtype=dtype, requires_grad=True)
    stats = mismatch_stats(logprobs_T, np.array([-1.0, -2.0], dtype=np.float32))
    assert (stats.mean, stats.max, stats.worst) == (0.25, 0.5, 0)


@pytest.mark.parametrize("shape", [(), (1,), (2, 1)])
def test_shapes_that_would_broadcast_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError):
        mismatch_stats(np.zeros(2), np.zeros(shape))
