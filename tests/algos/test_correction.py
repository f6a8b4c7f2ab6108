import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from surefoot.algos.correction import CORRECTIONS, importance_weights
from surefoot.types.errors import ConfigError, UsageError


def tis(differences: list[float], cap: float = 2.0) -> tuple[Tensor, Tensor, dict[str, float]]:
    old_T = torch.tensor(differences, dtype=torch.float64)
    ids_T = torch.zeros(len(differences), dtype=torch.int64)
    weights_T, kept_T, metrics = importance_weights(old_T, torch.zeros_like(old_T), ids_T, kind="tis", cap=cap)
    return weights_T, kept_T, {name: value.item() for name, value in metrics.items()}


def test_tis_worked_values() -> None:
    weights_T, kept_T, metrics = tis([0.1, 1.0, -99.0, 99.0])
    expected = [math.exp(0.1), 2.0, math.exp(-20), 2.0]
    assert weights_T.tolist() == pytest.approx(expected, rel=1e-12)
    assert kept_T.tolist() == [True] * 4
    assert metrics == {
        "correction_capped": 2,
        "correction_bounded": 2,
        "correction_rejected": 0,
        "correction_sum": pytest.approx(sum(expected), rel=1e-12),
    }


@settings(max_examples=60, deadline=None)
@given(difference=st.floats(-1e4, 1e4), cap=st.floats(0.5, 10))
def test_tis_is_the_capped_ratio(difference: float, cap: float) -> None:
    weights_T, _, metrics = tis([difference], cap)
    ratio = math.exp(max(-20.0, min(20.0, difference)))
    assert weights_T.item() == pytest.approx(min(ratio, cap), rel=1e-9)
    assert metrics["correction_bounded"] == (abs(difference) > 20)


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_tis_of_a_non_finite_sampler_logprob_is_nan_and_not_the_cap(bad: float) -> None:
    weights_T, _, metrics = tis([0.0, bad])
    assert weights_T[0] == 1
    assert weights_T[1].isnan()
    assert metrics["correction_capped"] == metrics["correction_bounded"] == 0


def test_none_is_one_and_does_not_look_at_the_sampler() -> None:
    weights_T, kept_T, metrics = importance_weights(
        torch.zeros(2), torch.full((2,), math.nan), torch.tensor([0, 0]), kind="none"
    )
    assert weights_T.tolist() == [1.0, 1.0]
    assert kept_T.all()
    assert metrics["correction_capped"] == 0


@pytest.mark.parametrize("kind", sorted(CORRECTIONS))
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_contract_of_every_kind(kind: str, dtype: torch.dtype) -> None:
    old_T = torch.tensor([-1.0, -5.0, -300.0], dtype=dtype, requires_grad=True)
    mu_T = torch.tensor([-1.0, -300.0, -5.0], dtype=dtype, requires_grad=True)
    weights_T, kept_T, metrics = importance_weights(old_T, mu_T, torch.arange(3), kind=kind)
    assert weights_T.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert weights_T.isfinite().all()
    assert not weights_T.requires_grad
    assert kept_T.dtype == torch.bool
    assert (weights_T[~kept_T] == 0).all()
    assert all(value.shape == () and value.dtype == torch.float64 for value in metrics.values())
    names = {"correction_capped", "correction_bounded", "correction_rejected", "correction_sum"}
    assert set(metrics) == names  # the same for every kind, so that reports of runs compare


@pytest.mark.parametrize("kind", sorted(CORRECTIONS))
def test_no_tokens(kind: str) -> None:
    empty_T = torch.zeros(0)
    weights_T, kept_T, _ = importance_weights(empty_T, empty_T, torch.zeros(0, dtype=torch.int64), kind=kind)
    assert weights_T.shape == kept_T.shape == (0,)


def test_misuse_is_refused() -> None:
    x_T, ids_T = torch.zeros(2), torch.zeros(2, dtype=torch.int64)
    with pytest.raises(ConfigError, match=r"algo.correction: unknown 'tiss'.*'tis'"):
        importance_weights(x_T, x_T, ids_T, kind="tiss")
    with pytest.raises(ConfigError, match=r"algo.tis_cap"):
        importance_weights(x_T, x_T, ids_T, kind="tis", cap=0.0)
    with pytest.raises(UsageError, match="sample_ids"):
        importance_weights(x_T, x_T, ids_T[:1], kind="tis")
