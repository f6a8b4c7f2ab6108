"""References are plain float64 loops over each group's list of rewards."""

import math
import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.algos.advantage import ESTIMATORS, degenerate_groups, group_advantages
from surefoot.types.errors import ConfigError, UsageError

EPS = 1e-6
NAN, INF = math.nan, math.inf


def reference(rewards: list[float], estimator: str) -> list[float]:
    if len(rewards) < 2 or max(rewards) == min(rewards):
        return [0.0] * len(rewards)
    mean = statistics.fmean(rewards)
    if estimator == "rloo":
        return [r - statistics.fmean(rewards[:i] + rewards[i + 1 :]) for i, r in enumerate(rewards)]
    scale = statistics.stdev(rewards) + EPS if estimator == "grpo" else 1.0
    return [(r - mean) / scale for r in rewards]


def advantages(rewards: list[float], ids: list[int], estimator: str, valid: list[bool] | None = None) -> list[float]:
    mask = None if valid is None else torch.tensor(valid)
    rewards_N = torch.tensor(rewards, dtype=torch.float64)
    return group_advantages(rewards_N, torch.tensor(ids), estimator=estimator, valid=mask, std_eps=EPS).tolist()


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (
            "grpo",
            [-0.5 / (math.sqrt(1 / 3) + EPS)] * 2 + [0.5 / (math.sqrt(1 / 3) + EPS)] * 2,
        ),  # std of 0 0 1 1, ddof 1
        ("dr_grpo", [-0.5, -0.5, 0.5, 0.5]),
        ("rloo", [-2 / 3, -2 / 3, 2 / 3, 2 / 3]),
    ],
)
def test_worked_values(estimator: str, expected: list[float]) -> None:
    assert advantages([0.0, 0.0, 1.0, 1.0], [5] * 4, estimator) == pytest.approx(expected, rel=1e-12)


entries = st.lists(
    st.tuples(st.floats(-100, 100, width=32), st.integers(-2, 3), st.booleans()),
    min_size=1,
    max_size=24,
)


@settings(max_examples=80, deadline=None)
@given(rows=entries, estimator=st.sampled_from(sorted(ESTIMATORS)))
def test_ragged_interleaved_groups_match_each_group_alone(rows: list[tuple[float, int, bool]], estimator: str) -> None:
    rewards, ids, valid = (list(column) for column in zip(*rows, strict=True))
    got = advantages(rewards, ids, estimator, valid)
    for group in set(ids):
        members = [i for i in range(len(rows)) if ids[i] == group and valid[i]]
        expected = reference([rewards[i] for i in members], estimator)
        assert [got[i] for i in members] == pytest.approx(expected, rel=1e-7, abs=1e-9)
    assert all(got[i] == 0 for i in range(len(rows)) if not valid[i])


@settings(max_examples=60, deadline=None)
@given(
    reward=st.floats(-1e6, 1e6),
    size=st.integers(2, 64),
    estimator=st.sampled_from(sorted(ESTIMATORS)),
    dtype=st.sampled_from([torch.bfloat16, torch.float16, torch.float32, torch.float64]),
)
def test_equal_rewards_give_exactly_zero(reward: float, size: int, estimator: str, dtype: torch.dtype) -> None:
    if dtype == torch.float16:
        reward = reward / 100  # stays finite in fp16
    rewards_N = torch.full((size,), reward, dtype=dtype)
    got_N = group_advantages(rewards_N, torch.zeros(size, dtype=torch.int64), estimator=estimator, std_eps=0.0)
    assert got_N.tolist() == [0.0] * size


def test_eight_rewards_of_seven_tenths() -> None:
    rewards_N = torch.full((8,), 0.7)
    assert group_advantages(rewards_N, torch.zeros(8, dtype=torch.int32)).tolist() == [0.0] * 8


@pytest.mark.parametrize("estimator", sorted(ESTIMATORS))
def test_rewards_equal_but_for_a_rounding_of_their_sum_stay_near_zero(estimator: str) -> None:
    rewards = [0.1 + 0.2, 0.3, 0.3, 0.3]
    assert rewards[0] != rewards[1]
    assert max(abs(a) for a in advantages(rewards, [0] * 4, estimator)) < 1e-9


@pytest.mark.parametrize("estimator", sorted(ESTIMATORS))
def test_a_common_offset_costs_no_precision(estimator: str) -> None:
    small = advantages([0.0, 1.0, 3.0], [0] * 3, estimator)
    assert advantages([2.0**40, 2.0**40 + 1, 2.0**40 + 3], [0] * 3, estimator) == small


@pytest.mark.parametrize("estimator", sorted(ESTIMATORS))
def test_singletons_and_groups_without_a_valid_reward_give_zero(estimator: str) -> None:
    got = advantages([1.0, 2.0, NAN, 3.0, 4.0], [0, 1, 1, 2, 2], estimator, [True, True, False, False, False])
    assert got == [0.0] * 5


@pytest.mark.parametrize("estimator", sorted(ESTIMATORS))
@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_an_invalid_non_finite_reward_leaves_the_rest_of_its_group_usable(estimator: str, bad: float) -> None:
    got = advantages([0.0, bad, 1.0], [0, 0, 0], estimator, [True, False, True])
    rest = reference([0.0, 1.0], estimator)
    assert got == pytest.approx([rest[0], 0.0, rest[1]], rel=1e-12)


@pytest.mark.parametrize("estimator", sorted(ESTIMATORS))
@pytest.mark.parametrize("bad", [[NAN, 1.0], [INF, 1.0], [-INF, 1.0], [INF, INF], [INF, -INF], [NAN]])
def test_a_valid_non_finite_reward_makes_its_group_nan_and_no_other(estimator: str, bad: list[float]) -> None:
    got = advantages([*bad, 0.0, 1.0, 9.0], [7] * len(bad) + [8, 8, 7], estimator, [True] * (len(bad) + 2) + [False])
    assert all(math.isnan(a) for a in got[: len(bad)])
    assert got[len(bad) : -1] == pytest.approx(reference([0.0, 1.0], estimator), rel=1e-12)
    assert got[-1] == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtype_is_that_of_the_rewards(dtype: torch.dtype) -> None:
    got_N = group_advantages(torch.tensor([0.0, 1.0], dtype=dtype), torch.tensor([0, 0]))
    assert got_N.dtype == dtype
    assert got_N[1].item() == pytest.approx(math.sqrt(0.5), rel=4 * torch.finfo(dtype).eps + 2e-6)


def test_integer_rewards_give_float32() -> None:
    got_N = group_advantages(torch.tensor([0, 1]), torch.tensor([0, 0]), estimator="dr_grpo")
    assert got_N.dtype == torch.float32
    assert got_N.tolist() == [-0.5, 0.5]


def test_no_rollouts() -> None:
    assert group_advantages(torch.zeros(0), torch.zeros(0, dtype=torch.int64)).shape == (0,)


def test_degenerate_groups_are_counted_once_each() -> None:
    rewards_N = torch.tensor([1.0, 1.0, 0.0, 1.0, 2.0, 3.0, 4.0, NAN, NAN, 0.0])
    ids_N = torch.tensor([0, 0, 1, 1, 2, 3, 4, 4, 5, 6])
    valid = torch.tensor([True, True, True, True, True, False, True, False, True, False])
    # 0 equal; 1 useful; 2 alone; 3 none valid; 4 one valid left; 5 NaN marked valid, reported by its NaN; 6 none valid
    assert degenerate_groups(rewards_N, ids_N, valid) == {"zero_variance": 1, "singleton": 2, "no_valid": 2}


def test_misuse_is_refused() -> None:
    rewards_N, ids_N = torch.zeros(3), torch.zeros(3, dtype=torch.int64)
    with pytest.raises(ConfigError, match=r"algo.estimator: unknown 'gpro'.*'grpo'"):
        group_advantages(rewards_N, ids_N, estimator="gpro")
    with pytest.raises(ConfigError, match=r"algo.std_eps"):
        group_advantages(rewards_N, ids_N, std_eps=-1.0)
    with pytest.raises(UsageError, match="valid"):
        group_advantages(rewards_N, ids_N, valid=torch.ones(3))
    with pytest.raises(UsageError, match="rewards"):
        group_advantages(rewards_N[:1], ids_N)
    with pytest.raises(UsageError, match="group_ids"):
        group_advantages(rewards_N, ids_N.float())
