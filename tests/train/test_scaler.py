"""The loss scale: handed traces, Megatron's rule, torch's own as a second opinion, and what a checkpoint carries."""

import json
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.config.schema import PrecisionConfig
from surefoot.train.scaler import LossScaler
from surefoot.types.errors import CheckpointError


def make_config(**keys: Any) -> PrecisionConfig:
    return PrecisionConfig.model_validate({"compute": "fp16", "init_scale": 1024.0, "growth_interval": 3} | keys)


def make(**keys: Any) -> LossScaler:
    return LossScaler.from_config(make_config(**keys))


def drive(scaler: LossScaler, overflows: list[bool]) -> list[float]:
    """The scale used at each attempt."""
    used = []
    for overflow in overflows:
        used.append(scaler.loss_scale)
        scaler.update(overflow)
    return used


def attempts(*overflowing: int, count: int) -> list[bool]:
    return [number in overflowing for number in range(1, count + 1)]


def test_two_overflows_then_clean() -> None:
    assert drive(make(), attempts(1, 2, count=7)) == [1024, 512, 256, 256, 256, 512, 512]


def test_hysteresis_of_two() -> None:
    used = drive(make(hysteresis=2), attempts(1, 2, 3, 7, count=8))
    assert used == [1024, 1024, 512, 256, 256, 256, 512, 512]


def test_scale_and_counters_survive_a_stop() -> None:
    scaler = make()
    assert drive(scaler, attempts(1, 2, count=4)) == [1024, 512, 256, 256]
    saved = json.loads(json.dumps(scaler.state_dict()))
    assert saved == {"active": True, "scale": 256.0, "clean_steps": 2, "hysteresis_left": 0}
    resumed = make()
    resumed.load_state_dict(saved)
    assert drive(resumed, [False] * 3) == [256, 512, 512]


def test_the_hysteresis_counter_survives_a_stop() -> None:
    scaler, resumed = make(hysteresis=2), make(hysteresis=2)
    drive(scaler, [True])
    resumed.load_state_dict(scaler.state_dict())
    assert drive(resumed, [True, True]) == [1024, 512]


@given(pattern=st.lists(st.booleans(), max_size=60), hysteresis=st.integers(1, 4), stop=st.integers(0, 60))
@settings(max_examples=100, deadline=None)
def test_megatrons_rule_with_a_stop_anywhere(pattern: list[bool], hysteresis: int, stop: int) -> None:
    scale, growth, left, expected = 1024.0, 0, hysteresis, []
    for overflow in pattern:  # DynamicGradScaler.update, as published
        expected.append(scale)
        if overflow:
            growth, left = 0, left - 1
            if left <= 0:
                scale = max(scale * 0.5, 64.0)
        else:
            growth += 1
            if growth == 3:
                growth, left, scale = 0, hysteresis, min(scale * 2.0, 8192.0)
    keys = {"hysteresis": hysteresis, "min_scale": 64.0, "max_scale": 8192.0}
    first, second = make(**keys), make(**keys)
    used = drive(first, pattern[:stop])
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert used + drive(second, pattern[stop:]) == expected


@given(pattern=st.lists(st.booleans(), max_size=40))
@settings(max_examples=40, deadline=None)
def test_torch_agrees_without_hysteresis(pattern: list[bool]) -> None:
    scale, tracker = torch.tensor(1024.0), torch.tensor(0, dtype=torch.int32)
    expected = []
    for overflow in pattern:
        expected.append(scale.item())
        torch._amp_update_scale_(scale, tracker, torch.tensor(float(overflow)), 2.0, 0.5, 3)
    assert drive(make(min_scale=1e-30, max_scale=1e30), pattern) == expected


def test_floor_and_ceiling() -> None:
    assert drive(make(min_scale=512.0), [True] * 3) == [1024, 512, 512]
    assert drive(make(max_scale=2048.0), [False] * 7) == [1024, 1024, 1024, 2048, 2048, 2048, 2048]


def test_a_static_scale_never_moves() -> None:
    scaler = make(dynamic_scale=False)
    assert not scaler.dynamic
    assert drive(scaler, [True, True, False, False, False, True]) == [1024] * 6
    scaler.load_state_dict(make(init_scale=64.0).state_dict())
    assert scaler.loss_scale == 1024


@pytest.mark.parametrize("compute", ["fp32", "bf16", "fp64"])
def test_without_fp16_it_is_inert(compute: str) -> None:
    scaler = make(compute=compute)
    assert not scaler.dynamic
    assert drive(scaler, [True, False, False, False, True]) == [1.0] * 5
    loss = torch.tensor(3.0)
    assert scaler.scale(loss) is loss
    scaler.load_state_dict(make().state_dict())
    assert scaler.loss_scale == 1.0


def test_a_run_that_turns_to_fp16_starts_from_its_own_scale() -> None:
    scaler = make()
    scaler.load_state_dict(make(compute="bf16").state_dict())
    assert scaler.loss_scale == 1024


def test_scale_loss_is_the_scale_of_the_gradient() -> None:
    weight = torch.tensor(2.0, requires_grad=True)
    make().scale(weight * 3).backward()
    assert weight.grad is not None and weight.grad.item() == 3 * 1024


def test_a_load_is_clamped_to_a_raised_floor_and_a_lowered_ceiling() -> None:
    saved = make().state_dict()
    raised, lowered = make(min_scale=4096.0, init_scale=4096.0), make(max_scale=16.0, init_scale=16.0)
    raised.load_state_dict(saved)
    lowered.load_state_dict(saved)
    assert (raised.loss_scale, lowered.loss_scale) == (4096, 16)


def test_restore_undoes_retries_exactly() -> None:
    scaler = make(hysteresis=2)
    drive(scaler, [False, False, True, False])
    snapshot = scaler.state_dict()
    drive(scaler, [True] * 5)
    assert scaler.state_dict() != snapshot
    scaler.restore(snapshot)
    assert scaler.state_dict() == snapshot


def test_a_snapshot_does_not_follow_the_scaler() -> None:
    scaler = make()
    snapshot = scaler.state_dict()
    scaler.update(True)
    assert snapshot["scale"] == 1024


@pytest.mark.parametrize(
    "change", [{"scale": 0.0}, {"scale": math.nan}, {"scale": math.inf}, {"clean_steps": -1}, {"hysteresis_left": -1}]
)
def test_a_damaged_state_is_refused(change: dict[str, float]) -> None:
    with pytest.raises(CheckpointError, match=next(iter(change))):
        make().load_state_dict(make().state_dict() | change)


def test_missing_and_unknown_keys_are_refused() -> None:
    state = make().state_dict()
    with pytest.raises(CheckpointError, match="_scale"):
        make().load_state_dict(state | {"_scale": 2.0})
    with pytest.raises(CheckpointError, match="expected"):
        make().load_state_dict({"scale": 2.0})


def test_a_start_outside_floor_and_ceiling_is_refused() -> None:
    with pytest.raises(ValueError, match=r"precision\.init_scale"):
        make(init_scale=2.0, min_scale=4.0)
