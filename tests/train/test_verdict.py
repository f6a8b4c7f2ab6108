"""The decision, over every combination of what it reads."""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from surefoot.config.schema import TrainConfig
from surefoot.train.verdict import Compute, Decision, Evidence, decide
from surefoot.types.train import NonFinite

CLEAN = Evidence(
    nonfinite=NonFinite(inputs=0, logprobs=0, losses=0, gradient=False),
    nonfinite_params=(),
    grad_norm=1.0,
    num_tokens=5,
    zero_signal=False,
    failed=False,
    refused=False,
    halt_asked=False,
)
FLAGS = (False, True)
CONFIGS = {
    (on_nonfinite, on_zero): TrainConfig(on_nonfinite=on_nonfinite, on_zero_signal=on_zero)
    for on_nonfinite, on_zero in product(("skip", "drop_samples", "halt"), ("skip", "apply"))
}
SCALES = {"above": 1024.0, "floor": 4.0, "below": 2.0}  # against a floor of 4


def run(
    evidence: Evidence, compute: Compute = "fp16", scale: float = 1024.0, dynamic: bool = True, **config: Any
) -> tuple[str, str]:
    decision = decide(
        evidence, compute=compute, scale=scale, min_scale=4.0, dynamic=dynamic, config=TrainConfig(**config)
    )
    return decision.verdict, decision.reason


def changed(nonfinite: str = "", **change: Any) -> Evidence:
    """`nonfinite`: the stages where something was not, by name."""
    flags = {name: name in nonfinite.split() for name in ("inputs", "logprobs", "losses", "gradient")}
    return replace(CLEAN, nonfinite=NonFinite(**flags), **change)


@pytest.mark.parametrize(
    ("evidence", "compute", "expected"),
    [
        (CLEAN, "fp16", ("applied", "ok")),
        (changed("gradient"), "fp16", ("skipped", "overflow")),
        (changed("gradient"), "bf16", ("skipped", "nonfinite_grad")),
        (changed(grad_norm=math.inf), "fp16", ("skipped", "overflow")),
        (changed(grad_norm=math.inf), "fp32", ("skipped", "nonfinite_grad")),
        (changed(grad_norm=math.nan), "fp64", ("skipped", "nonfinite_grad")),
        (changed("losses gradient"), "fp16", ("skipped", "nonfinite_loss")),
        (changed("inputs"), "fp32", ("skipped", "nonfinite_loss")),
        (changed("logprobs"), "fp32", ("skipped", "nonfinite_loss")),
        (changed(failed=True, num_tokens=0), "fp32", ("skipped", "error")),
        (changed(failed=True, nonfinite_params=("w",)), "fp32", ("halted", "nonfinite_param")),
        (changed("gradient", refused=True), "fp16", ("skipped", "overflow")),
        (changed("gradient", halt_asked=True), "fp16", ("skipped", "overflow")),
        (changed("gradient", refused=True), "bf16", ("skipped", "nonfinite_grad")),
        (changed("losses", halt_asked=True), "fp16", ("halted", "user_policy")),
        (changed(refused=True), "fp32", ("skipped", "hook")),
        (changed(refused=True, zero_signal=True), "fp32", ("skipped", "hook")),
        (changed(refused=True, num_tokens=0), "fp32", ("skipped", "empty_batch")),
        (changed(refused=True, halt_asked=True), "fp32", ("halted", "user_policy")),
        (changed(nonfinite_params=("w",), num_tokens=0), "fp32", ("halted", "nonfinite_param")),
        (changed("losses", num_tokens=0), "fp32", ("skipped", "empty_batch")),
        (changed(zero_signal=True), "fp32", ("skipped", "zero_signal")),
        (changed(zero_signal=True, grad_norm=math.nan), "fp32", ("skipped", "nonfinite_grad")),
        (changed(grad_norm=0.0), "fp32", ("applied", "ok")),
    ],
)
def test_worked_examples(evidence: Evidence, compute: Compute, expected: tuple[str, str]) -> None:
    assert run(evidence, compute) == expected


def test_an_overflow_that_no_scale_can_clear_is_no_overflow() -> None:
    bad = changed("gradient", grad_norm=math.nan)
    assert run(bad, scale=4.0) == ("skipped", "nonfinite_grad")
    assert run(bad, dynamic=False) == ("skipped", "nonfinite_grad")
    assert run(bad, scale=4.0, on_nonfinite="halt") == ("halted", "nonfinite_grad")
    assert run(bad, on_nonfinite="halt") == ("skipped", "overflow")


def expected_of(
    evidence: Evidence, compute: str, scale: str, dynamic: bool, on_nonfinite: str, on_zero: str
) -> tuple[str, str]:
    """The table of verdicts read the other way round: from the last line to the first, later lines overruling."""
    halt_or_skip = {"halt": "halted"}.get(on_nonfinite, "skipped")
    bad_loss = max(evidence.nonfinite.inputs, evidence.nonfinite.logprobs, evidence.nonfinite.losses)
    bad_norm = evidence.grad_norm in (math.inf, -math.inf) or evidence.grad_norm != evidence.grad_norm
    verdict = ("applied", "ok")
    if evidence.zero_signal and on_zero == "skip":
        verdict = ("skipped", "zero_signal")
    if evidence.refused:
        verdict = ("skipped", "hook")
    if evidence.nonfinite.gradient or bad_norm:
        verdict = (halt_or_skip, "nonfinite_grad")
    if bad_loss:
        verdict = (halt_or_skip, "nonfinite_loss")
    if evidence.halt_asked:
        verdict = ("halted", "user_policy")
    if (evidence.nonfinite.gradient or bad_norm) and not bad_loss:
        verdict = ("skipped", "overflow") if (compute, scale, dynamic) == ("fp16", "above", True) else verdict
    if not evidence.num_tokens:
        verdict = ("skipped", "empty_batch")
    if evidence.failed:
        verdict = ("skipped", "error")
    return ("halted", "nonfinite_param") if evidence.nonfinite_params else verdict


def test_every_combination() -> None:
    seen = set()
    shown = ("", "inputs", "logprobs", "losses", "gradient", "losses gradient")
    flags = list(product(FLAGS, repeat=5))
    for stages, norm, tokens, given in product(shown, (0.0, 1.0, math.inf, math.nan), (0, 5), flags):
        ruined, *flagged = given
        names = ("zero_signal", "failed", "refused", "halt_asked")
        evidence = changed(
            stages,
            nonfinite_params=("w",) if ruined else (),
            grad_norm=norm,
            num_tokens=tokens,
            **dict(zip(names, flagged, strict=True)),
        )
        for compute, scale, dynamic, on_nonfinite, on_zero in product(
            ("fp32", "bf16", "fp16"), SCALES, FLAGS, ("skip", "drop_samples", "halt"), ("skip", "apply")
        ):
            got = decide(
                evidence,
                compute=compute,
                scale=SCALES[scale],
                min_scale=4.0,
                dynamic=dynamic,
                config=CONFIGS[on_nonfinite, on_zero],
            )
            expected = expected_of(evidence, compute, scale, dynamic, on_nonfinite, on_zero)
            assert (got.verdict, got.reason) == expected, (evidence, compute)
            seen.add(expected)
    assert seen == {
        ("halted", "user_policy"),
        ("skipped", "error"),
        ("skipped", "hook"),
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
