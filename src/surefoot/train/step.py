"""One attempt at an update: forward and backward over the micro-batches, evidence, decision, and only then a change.

for each micro-batch:  log-probs -> loss terms -> (loss * scale).backward()
gradient hooks:        see the unscaled gradients
once, over all ranks:  evidence, one all-reduce and one host synchronisation
decide():              pure, the same answer on every rank
applied:               unscale and clip in one factor -> optimizer -> counter, scaler
skipped, halted:       gradients cleared; nothing else is touched (an overflow lowers the scale)

What is raised outside a collective is evidence: the other ranks' collectives are kept company and all ranks skip the
attempt with reason `error`. On several ranks a model's forward and backward are collectives from end to end (FSDP2
gathers each layer's weights), and what is raised there ends the process group.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.config.schema import AlgoConfig, OptimConfig, PrecisionConfig, TrainConfig
from surefoot.nn.model import PackedInputs
from surefoot.train.clip import clip_coefficient, is_squarable, scale_gradients
from surefoot.train.evidence import Agreed, Backward, add_up, agree, has_signal
from surefoot.train.hooks import GradientHook, Refusal, UnscaledGradients, ask
from surefoot.train.masters import Masters
from surefoot.train.mismatch import UNKNOWN_GAP, gap_metrics
from surefoot.train.optim import build_optimizer, set_learning_rate
from surefoot.train.pack import make_filler
from surefoot.train.roles import Roles, packed_inputs
from surefoot.train.scaler import LossScaler
from surefoot.train.schedule import learning_rate
from surefoot.train.terms import loss_terms, per_token
from surefoot.train.verdict import Decision, Evidence, decide
from surefoot.types.train import Batch, Microbatch, NonFinite, StepReport

SHOWN = 4  # weights named in a report's detail


@dataclass(frozen=True, slots=True)
class TrainerConfig:
    """The sections a trainer reads, and what it must know of the sampler and of the run's length."""

    train: TrainConfig
    algo: AlgoConfig
    optim: OptimConfig
    precision: PrecisionConfig
    temperature: float  # of sampling: log-probs are taken at it
    constant_length: int  # divisor per rollout of the `constant` aggregation
    total_updates: int  # 0 = unknown


def _nothing() -> None:
    """The default of a progress callback."""


class Trainer:
    def __init__(self, roles: Roles, config: TrainerConfig, hooks: Sequence[GradientHook] = ()) -> None:
        self.roles, self.config, self.world = roles, config, roles.policy.world
        self.hooks = tuple(hooks)
        self.masters = Masters(roles.policy, config.precision.compute)
        self.optimizer = build_optimizer(config.optim, self.masters)
        self.scaler = LossScaler.from_config(config.precision)
        self.updates = 0  # applied ones; the learning rate follows it, so a skipped step advances nothing
        self.filler = make_filler(0, with_reference=roles.reference is not None)
        nothing_N = torch.zeros(0, device=self.world.device)
        self.sum_names = sorted(loss_terms(self.filler, nothing_N, nothing_N, algo=config.algo)[1])

    def attempt(
        self, batch: Batch, *, step: int, attempt: int, version: int, on_microbatch: Callable[[], None] = _nothing
    ) -> StepReport:
        """One attempt. Nothing the next attempt depends on is changed unless the verdict is `applied`."""
        scale = self.scaler.loss_scale
        seen, agreed = self.gather_evidence(batch, on_microbatch)
        evidence = self._weigh(batch, agreed)
        decision = self._decide(evidence)
        lr = learning_rate(self.updates, config=self.config.optim, total_updates=self.config.total_updates)
        if decision.verdict == "applied":
            self._apply(evidence.grad_norm, lr)
        self.masters.clear_gradients()
        if decision.reason in ("ok", "overflow"):
            self.scaler.update(decision.reason == "overflow")
        gap = UNKNOWN_GAP if agreed.failed else gap_metrics(batch, seen.logprobs_MN, self.world)
        return StepReport(
            step=step,
            attempt=attempt,
            version=version,
            verdict=decision.verdict,
            reason=decision.reason,
            detail=self._detail(evidence, agreed),
            nonfinite=agreed.nonfinite,
            loss=agreed.sums["loss"],
            grad_norm=evidence.grad_norm,
            loss_scale=scale,
            next_loss_scale=self.scaler.loss_scale,
            lr=lr,
            metrics=per_token(agreed.sums, batch.num_tokens) | gap,
        )

    def examine(self, batch: Batch) -> NonFinite:
        """What is not finite in a forward and backward over `batch` at the present scale. Changes nothing.

        No hook is asked: what it would see is no attempt.
        """
        self.masters.clear_gradients()
        agreed = self._agree(batch, self.backward(batch), [])
        self.masters.clear_gradients()
        return agreed.nonfinite

    def nonfinite_parameters(self) -> tuple[str, ...]:
        """Names of the weights that hold inf or NaN on any rank; all ranks must ask together."""
        counts = self.world.sum(self.masters.nonfinite().double()).tolist()
        return tuple(name for name, count in zip(self.masters.names, counts, strict=True) if count)

    def backward(self, batch: Batch, on_microbatch: Callable[[], None] = _nothing) -> Backward:
        """Gradients of every micro-batch of this rank, with sums for the report and the chosen log-probs."""
        ran: list[tuple[Tensor, dict[str, Tensor]]] = []
        errors: list[str] = []
        for microbatch in batch.microbatches_RM[self.world.rank]:
            try:
                ran.append(self._accumulate(microbatch, errors))
            except Exception as error:
                if self.world.size > 1:
                    raise  # inside FSDP's collectives: nothing could be agreed any more
                errors.append(in_words(error))
            if errors and self.world.size == 1:
                break
            on_microbatch()
        told = "; ".join(dict.fromkeys(errors))
        return Backward(add_up([sums for _, sums in ran]), [logprobs_N for logprobs_N, _ in ran], told)

    def _accumulate(self, microbatch: Microbatch, errors: list[str]) -> tuple[Tensor, dict[str, Tensor]]:
        """Adds one micro-batch's gradients. Returns its log-probs [N] and its sums.

        Raises only what the model's own forward and backward do: other errors are noted, and a loss of 0 takes the
        place of what could not be computed, so that this rank stays in step with the others.
        """
        model = self.roles.policy.model
        microbatch, inputs = self._prepare(microbatch, errors)
        logprobs_N, entropy_N = model(inputs, self.config.temperature, self.config.train.logprob_chunk)
        try:
            loss, sums = loss_terms(microbatch, logprobs_N, entropy_N, algo=self.config.algo)
        except Exception as error:
            errors.append(in_words(error))
            loss, sums = (logprobs_N * 0).sum(), {}
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        return logprobs_N.detach(), sums

    def _prepare(self, microbatch: Microbatch, errors: list[str]) -> tuple[Microbatch, PackedInputs]:
        """The micro-batch with its inputs on the device, or the filler with its own."""
        try:
            return microbatch, packed_inputs(microbatch, self.world.device)
        except Exception as error:
            errors.append(in_words(error))
            return self.filler, packed_inputs(self.filler, self.world.device)

    def gather_evidence(self, batch: Batch, on_microbatch: Callable[[], None] = _nothing) -> tuple[Backward, Agreed]:
        """Gradients, still scaled, and what all ranks saw together."""
        self.masters.clear_gradients()  # an attempt that raised may have left some
        seen = self.backward(batch, on_microbatch)
        refusals: list[Refusal] = []
        if self.hooks and not seen.error:
            try:
                refusals = ask(self.hooks, UnscaledGradients(self.masters, self.scaler.loss_scale))
            except Exception as error:
                seen = Backward(seen.totals, seen.logprobs_MN, in_words(error))
        return seen, self._agree(batch, seen, refusals)

    def _agree(self, batch: Batch, seen: Backward, refusals: Sequence[Refusal]) -> Agreed:
        return agree(batch, seen, self.masters.gradients(), refusals, names=self.sum_names, world=self.world)

    def _weigh(self, batch: Batch, agreed: Agreed) -> Evidence:
        """The weights are asked where something is wrong, and where no token could show that they are."""
        doubtful = agreed.failed or bool(str(agreed.nonfinite)) or batch.num_tokens == 0
        return Evidence(
            nonfinite=agreed.nonfinite,
            nonfinite_params=self.nonfinite_parameters() if doubtful else (),
            grad_norm=math.sqrt(agreed.norm_sq) / self.scaler.loss_scale,
            num_tokens=batch.num_tokens,
            zero_signal=self.config.algo.kl_coef == 0 and not has_signal(batch),
            failed=agreed.failed,
            refused=agreed.refused,
            halt_asked=agreed.halt_asked,
        )

    def _decide(self, evidence: Evidence) -> Decision:
        precision = self.config.precision
        return decide(
            evidence,
            compute=precision.compute,
            scale=self.scaler.loss_scale,
            min_scale=precision.min_scale,
            dynamic=self.scaler.dynamic,
            config=self.config.train,
        )

    def _detail(self, evidence: Evidence, agreed: Agreed) -> str:
        norm, max_norm = evidence.grad_norm, self.config.train.max_grad_norm
        large = ""
        if math.isfinite(norm) and not is_squarable(norm, max_norm):
            large = f"gradient norm {norm:.3g}: its square overflows; train.max_grad_norm is {max_norm:g}"
        told = (name_weights(evidence.nonfinite_params), str(agreed.nonfinite), large, agreed.told)
        return "; ".join(filter(None, told))

    def _apply(self, grad_norm: float, lr: float) -> None:
        factor = clip_coefficient(grad_norm, self.config.train.max_grad_norm) / self.scaler.loss_scale
        scale_gradients(self.masters.gradients(), factor)
        set_learning_rate(self.optimizer, lr)
        self.optimizer.step()
        self.masters.publish()
        self.updates += 1


def in_words(error: BaseException) -> str:
    """Without its traceback, which would keep the failed attempt's tensors alive.

    >>> in_words(ValueError("no such thing"))
    'ValueError: no such thing'
    """
    return f"{type(error).__name__}: {str(error).strip() or 'no message'}"


def name_weights(names: Sequence[str]) -> str:
    """
    >>> name_weights(["model.norm.weight"]), name_weights([])
    ('weights not finite: model.norm.weight', '')
    """
    more = [f"and {len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return f"weights not finite: {', '.join([*names[:SHOWN], *more])}" if names else ""
