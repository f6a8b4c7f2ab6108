import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.algos.estimates import Z, _t_quantile, mean_interval, pass_at_k, reported_k, share_interval


@given(answers=st.integers(1, 7), data=st.data())
def test_pass_at_k_counts_the_subsets(answers: int, data: st.DataObject) -> None:
    correct = data.draw(st.integers(0, answers))
    k = data.draw(st.integers(1, answers))
    right = [i < correct for i in range(answers)]
    subsets = list(itertools.combinations(right, k))
    assert pass_at_k(answers, correct, k) == pytest.approx(np.mean([any(s) for s in subsets]), abs=1e-12)


def test_pass_at_k_is_unbiased() -> None:
    """The mean over binomial counts is 1 - (1 - p)^k exactly."""
    answers, p = 10, 0.3
    weights = [math.comb(answers, c) * p**c * (1 - p) ** (answers - c) for c in range(answers + 1)]
    for k in range(1, answers + 1):
        mean = sum(w * pass_at_k(answers, c, k) for c, w in enumerate(weights))
        assert mean == pytest.approx(1 - (1 - p) ** k, abs=1e-12)


def test_pass_at_k_of_many_answers_is_exact() -> None:
    expected = 1 - math.comb(9000, 100) / math.comb(10000, 100)
    assert pass_at_k(10000, 1000, 100) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("answers", "correct", "k"), [(4, 5, 1), (4, -1, 1), (4, 1, 5), (4, 1, 0)])
def test_pass_at_k_refuses(answers: int, correct: int, k: int) -> None:
    with pytest.raises(ValueError, match=f"pass@{k}"):
        pass_at_k(answers, correct, k)


@pytest.mark.parametrize("answers", range(1, 70))
def test_reported_k_starts_at_one_and_ends_at_all(answers: int) -> None:
    ks = reported_k(answers)
    assert ks[0] == 1 and ks[-1] == answers and ks == sorted(set(ks))


def test_wilson_by_the_book() -> None:
    """One answer a prompt, many prompts: Wilson's score interval of 30 among 100 is [0.2189, 0.3958] (z = 1.96)."""
    interval = share_interval([1.0] * 300 + [0.0] * 700, 1)
    n, p = 1000, 0.3
    centre, half = (p + Z**2 / 2 / n) / (1 + Z**2 / n), Z / (1 + Z**2 / n) * math.sqrt(p * 0.7 / n + Z**2 / 4 / n**2)
    assert (interval.low, interval.high) == pytest.approx((centre - half, centre + half), abs=2e-4)


@pytest.mark.parametrize(
    ("prompts", "answers", "p", "spread"), [(30, 4, 0.5, 0.4), (60, 8, 0.05, 0.1), (200, 1, 0.9, 0.0)]
)
def test_the_interval_covers(prompts: int, answers: int, p: float, spread: float) -> None:
    """Prompts of different difficulty (beta), answers binomial: the truth is inside in about 95% of evaluations."""
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(600):
        rates = rng.beta(p / spread, (1 - p) / spread, prompts) if spread else np.full(prompts, p)
        interval = share_interval(list(rng.binomial(answers, rates) / answers), answers)
        covered += interval.low <= p <= interval.high
    assert 0.92 <= covered / 600 <= 0.995


def test_answers_to_one_prompt_are_not_trials_of_their_own() -> None:
    """Where all answers to a prompt agree, more of them say nothing new."""
    few, many = share_interval([0.0, 1.0] * 20, 1), share_interval([0.0, 1.0] * 20, 64)
    assert (few.low, few.high) == pytest.approx((many.low, many.high), abs=0.01)


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=40))
def test_bounds_hold(shares: list[float]) -> None:
    interval = share_interval(shares, 4)
    assert 0 <= interval.low <= interval.mean + 1e-12 and interval.mean - 1e-12 <= interval.high <= 1
    assert interval.high > interval.low


def test_one_prompt_says_little_and_none_says_nothing() -> None:
    assert share_interval([1.0], 1).low < 0.3
    assert math.isnan(share_interval([], 1).mean)
    assert math.isnan(mean_interval([2.0]).low)


@pytest.mark.parametrize(
    ("freedom", "expected"), [(1, 12.7062), (10, 2.2281), (11, 2.2010), (30, 2.0423), (120, 1.9799)]
)
def test_students_quantile(freedom: int, expected: float) -> None:
    assert _t_quantile(freedom) == pytest.approx(expected, abs=1e-3)
