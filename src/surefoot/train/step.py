"""One attempt at an update: forward and backward over the micro-batches, evidence, decision, and only then a change.

for each micro-batch:  log-probs -> loss terms -> (loss * scale).backward()
once, over all ranks:  evidence, one all-reduce and one host synchronisation
decide():              pure, the same answer on every rank
applied:               unscale and clip in one factor -> optimizer -> counter, scaler
skipped, halted:       gradients cleared; nothing else is touched (an overflow lowers the scale)
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.algos import policy_loss
from surefoot.algos.kl import kl_and_bounded
from surefoot.config.schema import AlgoConfig, OptimConfig, PrecisionConfig, TrainConfig
from surefoot.train.clip import clip_coefficient, grad_norm_sq
from surefoot.train.masters import Masters
from surefoot.train.mismatch import gap_metrics
from surefoot.train.optim import build_optimizer, set_learning_rate
from surefoot.train.roles import Roles, packed_inputs
from surefoot.train.scaler import LossScaler
from surefoot.train.schedule import learning_rate
from surefoot.train.verdict import Decision, Evidence, decide
from surefoot.types.train import Batch, Microbatch, StepReport


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
    def __init__(self, roles: Roles, config: TrainerConfig) -> None:
        self.roles, self.config, self.world = roles, config, roles.policy.world
        self.masters = Masters(roles.policy, config.precision.compute)
        self.optimizer = build_optimizer(config.optim, self.masters)
        self.scaler = LossScaler.from_config(config.precision)
        self.updates = 0  # applied ones; the learning rate follows it, so a skipped step advances nothing

    def attempt(
        self, batch: Batch, *, step: int, attempt: int, version: int, on_microbatch: Callable[[], None] = _nothing
    ) -> StepReport:
        """One attempt. Nothing the next attempt depends on is changed unless the verdict is `applied`."""
        scale = self.scaler.scale
        self.masters.clear_gradients()  # an attempt that raised may have left some
        totals, logprobs_MN = self._backward(batch, on_microbatch)
        evidence, sums = self._agree(batch, totals)
        decision = self._decide(evidence)
        lr = learning_rate(self.updates, config=self.config.optim, total_updates=self.config.total_updates)
        if decision.verdict == "applied":
            self._apply(evidence.grad_norm, lr)
        self.masters.clear_gradients()
        if decision.reason in ("ok", "overflow"):
            self.scaler.update(decision.reason == "overflow")
        return StepReport(
            step=step,
            attempt=attempt,
            version=version,
            verdict=decision.verdict,
            reason=decision.reason,
            loss=sums.pop("loss"),
            grad_norm=evidence.grad_norm,
            loss_scale=scale,
            next_loss_scale=self.scaler.scale,
            lr=lr,
            metrics=per_token(sums, batch.num_tokens) | gap_metrics(batch, logprobs_MN, self.world),
        )

    def _backward(
        self, batch: Batch, on_microbatch: Callable[[], None] = _nothing
    ) -> tuple[dict[str, Tensor], list[Tensor]]:
        """Gradients of every micro-batch of this rank, with sums for the report and the chosen log-probs."""
        totals: dict[str, Tensor] = {}
        logprobs_MN = []
        for microbatch in batch.microbatches_RM[self.world.rank]:
            loss, sums, logprobs_N = self._loss(microbatch)
            self.scaler.scale_loss(loss).backward()  # type: ignore[no-untyped-call]
            for name, value in sums.items():
                totals[name] = totals.get(name, 0.0) + value.double()
            logprobs_MN.append(logprobs_N)
            on_microbatch()
        return totals, logprobs_MN

    def _loss(self, microbatch: Microbatch) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        """(loss to differentiate, sums over tokens, log-probs [N]) of one micro-batch's trainable tokens."""
        algo, device = self.config.algo, self.world.device
        inputs = packed_inputs(microbatch, device)
        model = self.roles.policy.model
        logprobs_N, entropy_N = model(inputs, self.config.temperature, self.config.train.logprob_chunk)

        def rows(array_T: Any) -> Tensor:
            return torch.from_numpy(array_T[microbatch.loss_mask_T]).to(device, non_blocking=True)

        weights_N = rows(microbatch.token_weights_T).to(logprobs_N.dtype)
        loss, sums = policy_loss(
            logprobs_N,
            rows(microbatch.old_logprobs_T),
            rows(microbatch.behavior_logprobs_T),
            rows(microbatch.advantages_T),
            weights_N,
            rows(microbatch.sample_ids_T),
            config=algo,
        )
        if len(microbatch.reference_logprobs_T):
            reference_N = rows(microbatch.reference_logprobs_T)
            held_N = logprobs_N if algo.kl_coef else logprobs_N.detach()  # a zero coefficient adds nothing to the graph
            kl_N, bounded_N = kl_and_bounded(held_N, reference_N, kind=algo.kl_kind, bound=algo.log_ratio_bound)
            sums["kl_reference"] = kl_N.detach().sum()
            sums["kl_bounded"] = bounded_N.sum()
            if algo.kl_coef:
                loss = loss + algo.kl_coef * (weights_N * kl_N).sum()
        sums["nonfinite_inputs"] = torch.tensor(nonfinite_inputs(microbatch), device=device)
        detached_N = logprobs_N.detach()
        sums["entropy"] = entropy_N.detach().sum()
        sums["nonfinite_tokens"] = (~detached_N.isfinite()).sum()
        sums["nonfinite_losses"] = (~loss.detach().isfinite()).sum()
        sums["loss"] = loss.detach()
        return loss, sums, detached_N

    def _agree(self, batch: Batch, totals: dict[str, Tensor]) -> tuple[Evidence, dict[str, float]]:
        """What all ranks saw together. Every rank leaves with the same numbers, so every rank decides the same."""
        names = sorted(totals)
        norm_sq = grad_norm_sq(self.masters.gradients())
        vector = torch.stack([norm_sq, *(totals[name] for name in names)]).to(self.world.device)
        norm_sq_sum, *values = self.world.sum(vector).tolist()  # the step's one host synchronisation
        sums = dict(zip(names, values, strict=True))
        bad = sums["nonfinite_tokens"] + sums["nonfinite_losses"] + sums["nonfinite_inputs"]
        nonfinite_loss = bad > 0 or not math.isfinite(sums["loss"])
        found_inf = not math.isfinite(norm_sq_sum)
        evidence = Evidence(
            nonfinite_loss=nonfinite_loss,
            found_inf=found_inf,
            nonfinite_param=(nonfinite_loss or found_inf) and not self.parameters_are_finite(),
            grad_norm=math.sqrt(norm_sq_sum) / self.scaler.scale,
            num_tokens=batch.num_tokens,
            zero_signal=self.config.algo.kl_coef == 0 and not has_signal(batch),
        )
        return evidence, sums

    def parameters_are_finite(self) -> bool:
        """Masters and the parameters behind them, on every rank; all ranks must ask together."""
        bad = torch.stack([(~tensor.isfinite()).any() for tensor in self.masters.all_tensors()]).any()
        return not self.world.sum(bad.double()).item()

    def _decide(self, evidence: Evidence) -> Decision:
        precision = self.config.precision
        return decide(
            evidence,
            compute=precision.compute,
            scale=self.scaler.scale,
            min_scale=precision.min_scale,
            dynamic=self.scaler.dynamic,
            config=self.config.train,
        )

    def _apply(self, grad_norm: float, lr: float) -> None:
        factor = clip_coefficient(grad_norm, self.config.train.max_grad_norm) / self.scaler.scale
        if factor != 1.0:
            torch._foreach_mul_(self.masters.gradients(), factor)
        set_learning_rate(self.optimizer, lr)
        self.optimizer.step()
        self.masters.publish()
        self.updates += 1


def nonfinite_inputs(microbatch: Microbatch) -> int:
    """Trainable tokens whose given log-probs or advantage are not finite, whether or not a term looks at them."""
    columns = (microbatch.behavior_logprobs_T, microbatch.old_logprobs_T, microbatch.advantages_T)
    finite_T = np.all([np.isfinite(column_T) for column_T in columns], axis=0)
    return int((~finite_T & microbatch.loss_mask_T).sum())


def has_signal(batch: Batch) -> bool:
    """Whether any trainable token of any rank has an advantage that is not 0 (NaN counts: it is not nothing)."""
    rows = (m for row in batch.microbatches_RM for m in row)
    return any((m.advantages_T[m.loss_mask_T] != 0).any() for m in rows)


MEANS = {  # what a sum over trainable tokens is called once it is divided by their number
    "ratio_sum": "ratio",
    "kl_old_sum": "kl_old",
    "correction_sum": "correction",
    "clipped_tokens": "clip_fraction",
    "bounded_log_ratios": "bounded_fraction",
    "correction_capped": "correction_capped_fraction",
    "correction_bounded": "correction_bounded_fraction",
    "correction_rejected": "correction_rejected_fraction",
    "kl_reference": "kl_reference",
    "kl_bounded": "kl_bounded_fraction",
    "entropy": "entropy",
}


def per_token(sums: dict[str, float], num_tokens: int) -> dict[str, float]:
    """Means over the batch's trainable tokens where `MEANS` says so; the rest are counts or weighted sums already."""
    return {MEANS.get(k, k): v / max(num_tokens, 1) if k in MEANS else v for k, v in sums.items()}
