"""A worker that trains nothing: rollouts, rewards and records as in a run, and the verdict says why no update came."""

import math
from collections.abc import Sequence

from surefoot.loop.worker import Attempt, Update, Worker
from surefoot.train.prepare import Scores, build_batch
from surefoot.types.rollout import Sample
from surefoot.types.train import NonFinite, StepReport

MEASURED = ("kl_old", "mismatch_mean", "mismatch_p99", "mismatch_max")  # what a trainer would have measured


class RolloutOnly(Worker):
    def train(self, samples: Sequence[Sample], *, step: int, version: int) -> list[Update]:
        trainer = self.trainer
        unscored = Scores(old={s.ref: s.behavior_logprobs_L for s in samples}, reference={}, old_source="sampler")
        batch = build_batch(samples, unscored, trainer.config, trainer.roles.policy)
        scale = trainer.scaler.loss_scale
        report = StepReport(
            step=step,
            attempt=0,
            version=version,
            verdict="skipped",
            reason="rollout_only",
            detail="",
            nonfinite=NonFinite(inputs=0, logprobs=0, losses=0, gradient=False),
            loss=math.nan,
            grad_norm=math.nan,
            loss_scale=scale,
            next_loss_scale=scale,
            lr=0.0,
            metrics=dict.fromkeys(MEASURED, math.nan),
        )
        return [Update((Attempt(batch, report),), {})]
