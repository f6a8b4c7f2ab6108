"""What becomes of an attempt at a step. A pure function of agreed evidence: the same answer on every rank."""

import math
from dataclasses import dataclass
from typing import Literal

from surefoot.config.schema import TrainConfig
from surefoot.train.clip import is_squarable
from surefoot.types.train import NonFinite, Reason, Verdict

Compute = Literal["fp32", "bf16", "fp16", "fp64"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one attempt showed, already agreed over ranks."""

    nonfinite: NonFinite
    nonfinite_params: tuple[str, ...]  # weights that held inf or NaN before the step
    grad_norm: float  # unscaled, before clipping
    num_tokens: int  # trainable ones
    zero_signal: bool  # every advantage is 0 and no other term is in the loss
    failed: bool  # a rank met an exception: what the others show is not the whole batch
    refused: bool  # a gradient hook said no
    halt_asked: bool  # a gradient hook asked for the run to end

    @property
    def nonfinite_loss(self) -> bool:
        seen = self.nonfinite
        return seen.inputs > 0 or seen.logprobs > 0 or seen.losses > 0

    @property
    def nonfinite_grad(self) -> bool:
        return self.nonfinite.gradient or not math.isfinite(self.grad_norm)


@dataclass(frozen=True, slots=True)
class Decision:
    verdict: Verdict
    reason: Reason


def decide(
    evidence: Evidence, *, compute: Compute, scale: float, min_scale: float, dynamic: bool, config: TrainConfig
) -> Decision:
    """The first line that holds:

    1. a weight is not finite                               halted   nonfinite_param
    2. a rank met an exception                              skipped  error
    3. no trainable token anywhere                          skipped  empty_batch
    4. only a gradient or its norm is not finite, and fp16
       has a dynamic scale above its floor to lower         skipped  overflow
    5. a hook asked for the end                             halted   user_policy
    6. the loss is not finite                               skipped or halted (`on_nonfinite`)  nonfinite_loss
    7. a gradient or its norm is not finite, or its square
       after clipping is not                                skipped or halted (`on_nonfinite`)  nonfinite_grad
    8. a hook refused                                       skipped  hook
    9. no signal, and `on_zero_signal` is skip              skipped  zero_signal
    10.                                                     applied  ok
    Hooks come after `overflow`: what they saw then was not the gradient, and the scale must fall all the same.

    scale: the one used in backward. A static scale has nothing to lower, so its overflow is a `nonfinite_grad`.
    `on_nonfinite = "drop_samples"` is a skip here: which samples to go on without is not this function's to know.
    """
    on_nonfinite: Verdict = "halted" if config.on_nonfinite == "halt" else "skipped"
    scale_can_fall = compute == "fp16" and dynamic and scale > min_scale
    if evidence.nonfinite_params:
        return Decision("halted", "nonfinite_param")
    if evidence.failed:
        return Decision("skipped", "error")
    if evidence.num_tokens == 0:
        return Decision("skipped", "empty_batch")
    if evidence.nonfinite_grad and not evidence.nonfinite_loss and scale_can_fall:
        return Decision("skipped", "overflow")
    if evidence.halt_asked:
        return Decision("halted", "user_policy")
    if evidence.nonfinite_loss:
        return Decision(on_nonfinite, "nonfinite_loss")
    if evidence.nonfinite_grad or not is_squarable(evidence.grad_norm, config.max_grad_norm):
        return Decision(on_nonfinite, "nonfinite_grad")
    if evidence.refused:
        return Decision("skipped", "hook")
    if evidence.zero_signal and config.on_zero_signal == "skip":
        return Decision("skipped", "zero_signal")
    return Decision("applied", "ok")
