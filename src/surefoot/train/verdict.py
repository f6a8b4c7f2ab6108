"""What becomes of an attempt at a step. A pure function of agreed evidence: the same answer on every rank."""

import math
from dataclasses import dataclass
from typing import Literal

from surefoot.config.schema import TrainConfig
from surefoot.types.train import Reason, Verdict

Compute = Literal["fp32", "bf16", "fp16", "fp64"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one attempt showed, already agreed over ranks."""

    nonfinite_loss: bool  # a log-prob or loss term of a trainable token is inf or NaN
    found_inf: bool  # an entry of a gradient is inf or NaN, as backward left it (scaled)
    nonfinite_param: bool  # a weight was inf or NaN before the step
    grad_norm: float  # unscaled, before clipping
    num_tokens: int  # trainable ones
    zero_signal: bool  # every advantage is 0 and no other term is in the loss


@dataclass(frozen=True, slots=True)
class Decision:
    verdict: Verdict
    reason: Reason


def decide(
    evidence: Evidence, *, compute: Compute, scale: float, min_scale: float, dynamic: bool, config: TrainConfig
) -> Decision:
    """The first line that holds:

    1. a weight is not finite                               halted   nonfinite_param
    2. no trainable token anywhere                          skipped  empty_batch
    3. the loss is not finite                               skipped or halted (`on_nonfinite`)  nonfinite_loss
    4. a gradient or its norm is not finite, and
       fp16 with a dynamic scale above its floor            skipped  overflow
       otherwise, nothing is left to lower                  skipped or halted (`on_nonfinite`)  nonfinite_grad
    5. no signal, and `on_zero_signal` is skip              skipped  zero_signal
    6.                                                      applied  ok

    scale: the one used in backward. A static scale has nothing to lower, so its overflow is a `nonfinite_grad`.
    With `on_nonfinite = "skip"` and fp32, a gradient norm of inf gives (skipped, nonfinite_grad).
    """
    if evidence.nonfinite_param:
        return Decision("halted", "nonfinite_param")
    if evidence.num_tokens == 0:
        return Decision("skipped", "empty_batch")
    on_nonfinite: Verdict = "halted" if config.on_nonfinite == "halt" else "skipped"
    if evidence.nonfinite_loss:
        return Decision(on_nonfinite, "nonfinite_loss")
    if evidence.found_inf or not math.isfinite(evidence.grad_norm):
        if compute == "fp16" and dynamic and scale > min_scale:
            return Decision("skipped", "overflow")
        return Decision(on_nonfinite, "nonfinite_grad")
    if evidence.zero_signal and config.on_zero_signal == "skip":
        return Decision("skipped", "zero_signal")
    return Decision("applied", "ok")
