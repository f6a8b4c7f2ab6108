"""The schedule of a mix. The bound holds in whole numbers: |drawn - n * w / W| < 1 is |drawn * W - n * w| < W."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.data.mix import FINEST, Schedule, whole_weights
from surefoot.types.errors import ConfigError

WEIGHTS = st.lists(st.integers(1, 60) | st.sampled_from([1, 1000]), min_size=1, max_size=12)


def furthest(weights: Sequence[float], draws: int) -> tuple[list[int], int, int]:
    """(how often each source was drawn, the largest |drawn * W - n * w| at any n, W)."""
    schedule = Schedule(weights)
    drawn, worst = [0] * len(weights), 0
    for n in range(1, draws + 1):
        drawn[schedule.source(n - 1)] += 1
        gaps = [abs(d * schedule.period - n * w) for d, w in zip(drawn, schedule.weights, strict=True)]
        worst = max(worst, *gaps)
    return drawn, worst, schedule.period


@settings(max_examples=150, deadline=None)
@given(WEIGHTS)
def test_shares_are_kept_at_every_draw(weights: list[int]) -> None:
    _, worst, period = furthest(weights, 400)
    assert worst < period


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.1, 1e3), min_size=2, max_size=6))
def test_odd_weights_too(weights: list[float]) -> None:
    drawn, worst, period = furthest(weights, 400)
    assert worst < period
    for count, weight in zip(drawn, weights, strict=True):
        assert abs(count - 400 * weight / sum(weights)) < 1.001  # rounded to parts of 500,000: 400 * 1e-6, and a little


def test_many_small_beside_one_large() -> None:
    """Where each draw goes to the source furthest behind, some source falls behind by more than one draw."""
    _, worst, period = furthest([50.0] + [3.0] * 11 + [1.0] * 17, 200)
    assert worst < period


@settings(max_examples=80, deadline=None)
@given(WEIGHTS, st.integers(0, 3000), st.integers(0, 300))
def test_counting_is_what_drawing_gives(weights: list[int], draws: int, asked_before: int) -> None:
    schedule = Schedule(weights)
    schedule.source(asked_before)
    counted = [0] * len(weights)
    for n in range(draws):
        counted[schedule.source(n)] += 1
    assert schedule.drawn(draws) == Schedule(weights).drawn(draws) == counted


@settings(max_examples=80, deadline=None)
@given(st.data(), WEIGHTS)
def test_draws_until_are_enough(data: st.DataObject, weights: list[int]) -> None:
    counts = [data.draw(st.integers(1, 20)) for _ in weights]
    schedule = Schedule(weights)
    enough = schedule.draws_until(counts)
    assert all(d >= count for d, count in zip(schedule.drawn(enough), counts, strict=True))
    assert all(enough * w >= count * schedule.period for w, count in zip(schedule.weights, counts, strict=True))
    assert any(
        (enough - 1) * w < count * schedule.period for w, count in zip(schedule.weights, counts, strict=True)
    )  # one less is too few by its share


def test_far_draws_cost_nothing_where_the_schedule_repeats() -> None:
    assert Schedule([0.7, 0.2, 0.1]).drawn(10**15) == [7 * 10**14, 2 * 10**14, 10**14]


@pytest.mark.parametrize(
    ("weights", "whole"),
    [
        ([1.0], [1]),
        ([0.1, 0.6], [1, 6]),  # 0.1 is meant as a tenth, not as its nearest binary number
        ([0.75, 0.25], [3, 1]),
        ([1e-05, 1e-05], [1, 1]),
        ([7473.0, 12000.0], [2491, 4000]),
        ([1.0, 2.0000001], [166667, 333333]),  # parts of 500,000
    ],
)
def test_whole_weights(weights: list[float], whole: list[int]) -> None:
    assert whole_weights(weights) == whole
    assert sum(whole) <= FINEST


@pytest.mark.parametrize(
    ("weights", "reason"),
    [([1.0, 0.0], "above 0"), ([1.0, -1.0], "above 0"), ([1.0, 1e-9], "below one of 500,000 draws")],
)
def test_what_is_no_share(weights: list[float], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        whole_weights(weights)
