"""Placement: the budgets on a log-normal mix of lengths, and what must hold on any mix."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.train.placement import Plan, plan_pack, spread

MAX_TOKENS = 16384
LINEAR, QUADRATIC = 6 * 596e6, 6.0 * 28 * 2048  # FLOPs of Qwen3-0.6B: weights; causal attention in 28 layers of 2,048


def log_normal_lengths(seed: int) -> list[int]:
    lengths = np.random.default_rng(seed).lognormal(mean=6.0, sigma=0.8, size=2000)
    return [int(length) for length in np.clip(lengths, 16, 4096)]


def rank_costs(plan: Plan, lengths: list[int], linear: float, quadratic: float) -> list[float]:
    return [sum(linear * lengths[i] + quadratic * lengths[i] ** 2 for bin_ in row for i in bin_) for row in plan]


def real_count(plan: Plan) -> int:
    return sum(bool(bin_) for row in plan for bin_ in row)


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
@pytest.mark.parametrize("seed", range(8))
def test_fill_count_and_balance_on_the_log_normal_mix(seed: int, ranks: int) -> None:
    lengths = log_normal_lengths(seed)
    plan = plan_pack(lengths, ranks=ranks, max_tokens=MAX_TOKENS, linear_cost=LINEAR, quadratic_cost=QUADRATIC)
    total = sum(lengths)
    assert total / (real_count(plan) * MAX_TOKENS) >= 0.97
    assert len(plan[0]) <= math.ceil(total / (ranks * MAX_TOKENS)) + 1
    assert spread(rank_costs(plan, lengths, LINEAR, QUADRATIC)) <= 0.05


@pytest.mark.parametrize("seed", [4, 5])
def test_the_gaps_that_long_samples_leave_are_filled_with_short_ones(seed: int) -> None:
    # Without the short ones a full rank spills what does not fit on the others: 2.6% and 2.7% here.
    lengths = log_normal_lengths(seed)
    plan = plan_pack(lengths, ranks=8, max_tokens=MAX_TOKENS, linear_cost=LINEAR, quadratic_cost=QUADRATIC)
    assert spread(rank_costs(plan, lengths, LINEAR, QUADRATIC)) <= 0.02


def test_balance_is_kept_where_fill_cannot_be_had() -> None:
    # Eight ranks of 8.4 budgets each: 8 or 9 micro-batches differ by more than 5% in tokens, and without a quadratic
    # cost nothing can make up for it.
    lengths = log_normal_lengths(1)
    assert 8.3 < sum(lengths) / (8 * MAX_TOKENS) < 8.5
    plan = plan_pack(lengths, ranks=8, max_tokens=MAX_TOKENS, linear_cost=1.0, quadratic_cost=0.0)
    assert spread(rank_costs(plan, lengths, 1.0, 0.0)) < 0.001
    assert {len(row) for row in plan} == {9}


def test_ties_go_to_the_lower_index() -> None:
    plan = plan_pack([4, 4, 4, 4], ranks=2, max_tokens=8, linear_cost=1.0, quadratic_cost=1.0)
    assert plan == (((0, 2),), ((1, 3),))


def test_squares_count_in_the_balance() -> None:
    # Costs 100, 25, 25, 25, 25: the long sample alone balances the four short ones, though it has half their tokens.
    plan = plan_pack([10, 5, 5, 5, 5], ranks=2, max_tokens=20, linear_cost=0.0, quadratic_cost=1.0)
    assert plan == (((0,),), ((1, 2, 3, 4),))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_fewer_samples_than_ranks_leaves_empty_micro_batches(count: int) -> None:
    plan = plan_pack([5] * count, ranks=4, max_tokens=8, linear_cost=1.0, quadratic_cost=0.0)
    assert plan == tuple(((rank,) if rank < count else (),) for rank in range(4))


@given(
    lengths=st.lists(st.integers(1, 64), max_size=60),
    ranks=st.integers(1, 5),
    quadratic=st.sampled_from([0.0, 1e-3, 1.0]),
)
@settings(max_examples=150, deadline=None)
def test_any_mix_is_placed_once_within_budget_and_balanced(lengths: list[int], ranks: int, quadratic: float) -> None:
    plan = plan_pack(lengths, ranks=ranks, max_tokens=64, linear_cost=1.0, quadratic_cost=quadratic)
    assert sorted(i for row in plan for bin_ in row for i in bin_) == list(range(len(lengths)))
    assert all(sum(lengths[i] for i in bin_) <= 64 for row in plan for bin_ in row)
    assert len(plan) == ranks and len({len(row) for row in plan}) == 1 and len(plan[0]) >= 1
    assert any(all(row) for row in plan) or not lengths, "one micro-batch too many on every rank"
    for row in plan:  # no two micro-batches that would have fitted in one
        assert sum(sum(lengths[i] for i in bin_) <= 32 for bin_ in row if bin_) <= 1
    costs = rank_costs(plan, lengths, 1.0, quadratic)
    mean, largest = sum(costs) / ranks, max((n + quadratic * n * n for n in lengths), default=0.0)
    assert max(costs) <= max(mean + largest, 1.05 * mean) * (1 + 1e-9)  # Graham's bound for list scheduling


@pytest.mark.parametrize("lengths", [[9], [3, 0], [-1]])
def test_a_length_outside_the_budget_is_refused(lengths: list[int]) -> None:
    bad = len(lengths) - 1
    with pytest.raises(ValueError, match=rf"sample {bad} has {lengths[bad]} packed positions; .* 1 to 8"):
        plan_pack(lengths, ranks=1, max_tokens=8, linear_cost=1.0, quadratic_cost=0.0)


@pytest.mark.parametrize(
    "change", [{"ranks": 0}, {"max_tokens": 0}, {"linear_cost": -1.0}, {"quadratic_cost": math.nan}]
)
def test_senseless_arguments_are_refused(change: dict[str, float]) -> None:
    arguments = {"ranks": 1, "max_tokens": 8, "linear_cost": 1.0, "quadratic_cost": 0.0} | change
    with pytest.raises(ValueError, match=next(iter(change))):
        plan_pack([], **arguments)


@pytest.mark.parametrize(
    ("costs", "expected"), [([100.0, 105.0], 0.05), ([0.0, 0.0], 0.0), ([0.0, 1.0], math.inf), ([7.0], 0.0)]
)
def test_spread(costs: list[float], expected: float) -> None:
    assert spread(costs) == pytest.approx(expected)
