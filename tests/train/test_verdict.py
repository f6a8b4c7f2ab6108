"""The decision, over every combination of what it reads."""

import math
from itertools import product
from typing import Any

import pytest

from surefoot.config.schema import TrainConfig
from surefoot.train.verdict import Compute, Decision, Evidence, decide

CLEAN = Evidence(
    nonfinite_loss=False, found_inf=False, nonfinite_param=False, grad_norm=1.0, num_tokens=5, zero_signal=False
)
FLAGS = (False, True)
SCALES = {"above": 1024.0, "floor": 4.0, "below": 2.0}  # against a floor of 4


def run(
    evidence: Evidence, compute: Compute = "fp16", scale: float = 1024.0, dynamic: bool = True, **config: Any
) -> tuple[str, str]:
    decision = decide(
        evidence, compute=compute, scale=scale, min_scale=4.0, dynamic=dynamic, config=TrainConfig(**config)
    )
    return decision.verdict, decision.reason


def changed(**change: Any) -> Evidence:
    base = {name: getattr(CLEAN, name) for name in Evidence.__slots__}
    return Evidence(**(base | change))


@pytest.mark.parametrize(
    ("evidence", "compute", "expected"),
    [
        (CLEAN, "fp16", ("applied", "ok")),
        (changed(found_inf=True), "fp16", ("skipped", "overflow")),
        (changed(found_inf=True), "bf16", ("skipped", "nonfinite_grad")),
        (changed(grad_norm=math.inf), "fp16", ("skipped", "overflow")),
        (changed(grad_norm=math.inf), "fp32", ("skipped", "nonfinite_grad")),
        (changed(grad_norm=math.nan), "fp64", ("skipped", "nonfinite_grad")),
        (changed(nonfinite_loss=True, found_inf=True), "fp16", ("skipped", "nonfinite_loss")),
        (changed(nonfinite_param=True, num_tokens=0), "fp32", ("halted", "nonfinite_param")),
        (changed(num_tokens=0, nonfinite_loss=True), "fp32", ("skipped", "empty_batch")),
        (changed(zero_signal=True), "fp32", ("skipped", "zero_signal")),
        (changed(zero_signal=True, grad_norm=math.nan), "fp32", ("skipped", "nonfinite_grad")),
        (changed(grad_norm=0.0), "fp32", ("applied", "ok")),
    ],
)
def test_worked_examples(evidence: Evidence, compute: Compute, expected: tuple[str, str]) -> None:
    assert run(evidence, compute) == expected


def test_an_overflow_that_no_scale_can_clear_is_no_overflow() -> None:
    bad = changed(found_inf=True, grad_norm=math.nan)
    assert run(bad, scale=4.0) == ("skipped", "nonfinite_grad")
    assert run(bad, dynamic=False) == ("skipped", "nonfinite_grad")
    assert run(bad, scale=4.0, on_nonfinite="halt") == ("halted", "nonfinite_grad")
    assert run(bad, on_nonfinite="halt") == ("skipped", "overflow")


def expected_of(
    evidence: Evidence, compute: str, scale: str, dynamic: bool, on_nonfinite: str, on_zero: str
) -> tuple[str, str]:
    """The table of verdicts read the other way round: from the last line to the first, later lines overruling."""
    halt_or_skip = {"halt": "halted", "skip": "skipped"}[on_nonfinite]
    verdict = ("applied", "ok")
    if evidence.zero_signal and on_zero == "skip":
        verdict = ("skipped", "zero_signal")
    if evidence.found_inf or evidence.grad_norm in (math.inf, -math.inf) or evidence.grad_norm != evidence.grad_norm:
        can_lower = (compute, scale, dynamic) == ("fp16", "above", True)
        verdict = ("skipped", "overflow") if can_lower else (halt_or_skip, "nonfinite_grad")
    if evidence.nonfinite_loss:
        verdict = (halt_or_skip, "nonfinite_loss")
    if not evidence.num_tokens:
        verdict = ("skipped", "empty_batch")
    return ("halted", "nonfinite_param") if evidence.nonfinite_param else verdict


def test_every_combination() -> None:
    seen = set()
    for flags in product(FLAGS, FLAGS, FLAGS, (0.0, 1.0, math.inf, math.nan), (0, 5), FLAGS):
        evidence = Evidence(*flags)
        for compute, scale, dynamic, on_nonfinite, on_zero in product(
            ("fp32", "bf16", "fp16", "fp64"), SCALES, FLAGS, ("skip", "halt"), ("skip", "apply")
        ):
            got = run(evidence, compute, SCALES[scale], dynamic, on_nonfinite=on_nonfinite, on_zero_signal=on_zero)
            assert got == expected_of(evidence, compute, scale, dynamic, on_nonfinite, on_zero), (evidence, compute)
            seen.add(got)
    assert seen == {
        ("applied", "ok"),
        ("skipped", "overflow"),
        ("skipped", "nonfinite_loss"),
        ("halted", "nonfinite_loss"),
        ("skipped", "nonfinite_grad"),
        ("halted", "nonfinite_grad"),
        ("halted", "nonfinite_param"),
        ("skipped", "empty_batch"),
        ("skipped", "zero_signal"),
    }


def test_records_are_frozen() -> None:
    for record in (CLEAN, Decision("applied", "ok")):
        with pytest.raises(AttributeError):
            setattr(record, type(record).__slots__[0], None)
