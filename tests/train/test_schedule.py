"""Learning rates as a function of applied updates."""

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.config.schema import OptimConfig
from surefoot.train.schedule import learning_rate


def rates(config: OptimConfig, total: int, count: int) -> list[float]:
    return [learning_rate(update, config=config, total_updates=total) for update in range(count)]


def test_a_skipped_attempt_does_not_advance_the_warm_up() -> None:
    overflows, applied, used = [True, False, True, False, False], 0, []
    for overflow in overflows:
        if not overflow:
            used.append(learning_rate(applied, config=OptimConfig(lr=1.0, warmup=4), total_updates=0))
            applied += 1
    assert used == [0.25, 0.5, 0.75]


@pytest.mark.parametrize(
    ("config", "total", "expected"),
    [
        (OptimConfig(lr=2.0), 0, [2.0, 2.0, 2.0]),
        (OptimConfig(lr=1.0, warmup=1), 0, [1.0, 1.0]),
        (OptimConfig(lr=1.0, schedule="linear"), 4, [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]),
        (OptimConfig(lr=1.0, schedule="linear", min_lr_ratio=0.2), 4, [1.0, 0.8, 0.6, 0.4, 0.2, 0.2]),
        (OptimConfig(lr=1.0, schedule="linear", warmup=2), 4, [0.5, 1.0, 1.0, 0.5, 0.0]),
        (OptimConfig(lr=1.0, schedule="cosine"), 4, [1.0, 0.853553390593, 0.5, 0.146446609407, 0.0, 0.0]),
        (OptimConfig(lr=1.0, schedule="cosine", min_lr_ratio=0.5), 2, [1.0, 0.75, 0.5, 0.5]),
        (OptimConfig(lr=1.0, schedule="linear", warmup=3), 3, [1 / 3, 2 / 3, 1.0, 1.0, 0.0]),
        (OptimConfig(lr=1.0, schedule="cosine", warmup=5), 3, [0.2, 0.4, 0.6]),
    ],
)
def test_worked_examples(config: OptimConfig, total: int, expected: list[float]) -> None:
    assert rates(config, total, len(expected)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
@pytest.mark.parametrize("update", [0, 7])
def test_a_falling_schedule_needs_an_end(schedule: str, update: int) -> None:
    config = OptimConfig.model_validate({"schedule": schedule, "warmup": 5})
    with pytest.raises(ValueError, match=rf'optim.schedule = "{schedule}".*loop.steps'):
        learning_rate(update, config=config, total_updates=0)


@pytest.mark.parametrize(("update", "total"), [(-1, 4), (0, -4)])
def test_negative_counts_are_refused(update: int, total: int) -> None:
    with pytest.raises(ValueError, match="negative"):
        learning_rate(update, config=OptimConfig(), total_updates=total)


@given(
    schedule=st.sampled_from(["constant", "linear", "cosine"]),
    warmup=st.integers(0, 20),
    total=st.integers(1, 40),
    ratio=st.floats(0, 1),
)
@settings(max_examples=100, deadline=None)
def test_up_to_lr_then_down_to_the_end(schedule: str, warmup: int, total: int, ratio: float) -> None:
    raw = {"lr": 3e-4, "schedule": schedule, "warmup": warmup, "min_lr_ratio": ratio}
    values = rates(OptimConfig.model_validate(raw), total, total + warmup + 3)
    rising, falling = values[:warmup], values[warmup:]
    assert rising == sorted(rising) and all(v > 0 for v in rising)
    assert all(b <= a * (1 + 1e-12) for a, b in pairwise(falling))
    assert max(values) == pytest.approx(3e-4)
    end = 3e-4 if schedule == "constant" else 3e-4 * ratio
    assert math.isclose(values[-1], end, rel_tol=1e-9, abs_tol=1e-18)
