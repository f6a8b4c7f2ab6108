"""Trains on one rollout batch: scores it, cuts it into updates, and answers each attempt's verdict.

The trainer makes one attempt at a time; retrying an overflow, counting skips and halting are decided here.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from surefoot.config.schema import TrainConfig
from surefoot.observe.console import Bar
from surefoot.train.minibatch import split
from surefoot.train.prepare import build_batch, score
from surefoot.train.step import Trainer
from surefoot.types.rollout import Sample
from surefoot.types.train import Batch, StepReport

UNCOUNTED = ("overflow", "zero_signal")  # a lower scale, or a task that is solved: no reason to end a run

Progress = Callable[[str, int], AbstractContextManager[Bar]]
"""(what is under way, how much of it there is) -> a bar to advance."""


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """A batch and every attempt made at it; the last one settles its samples' fate."""

    batch: Batch
    reports: tuple[StepReport, ...]

    @property
    def settled(self) -> StepReport:
        return self.reports[-1]


class Worker:
    def __init__(self, trainer: Trainer, config: TrainConfig, reference_interval: int, progress: Progress) -> None:
        self.trainer, self.config, self.reference_interval = trainer, config, reference_interval
        self.progress = progress
        self.consecutive_skips = 0  # for want of a finite number or of any sample

    def train(self, samples: Sequence[Sample], *, step: int, version: int) -> list[Update]:
        """Every update of one rollout batch. Ends early on a verdict of `halted`."""
        trainer = self.trainer
        scores = score(samples, trainer.roles, trainer.config, version)
        updates: list[Update] = []
        for _ in range(self.config.epochs if samples else 1):
            for part in self._mini_batches(samples):
                batch = build_batch(part, scores, trainer.config, trainer.roles.policy)
                made = sum(len(update.reports) for update in updates)
                updates.append(self._update(batch, step=step, first_attempt=made, version=version))
                if updates[-1].settled.verdict == "halted":
                    return updates
        return updates

    def _mini_batches(self, samples: Sequence[Sample]) -> list[list[Sample]]:
        """As many as configured, but no more than there are rollouts left after invalid ones were dropped.

        Where none is left the one empty batch is still attempted: its verdict says so.
        """
        rollouts = {(s.ref.group, s.ref.rollout) for s in samples}
        return split(samples, min(self.config.updates_per_rollout, len(rollouts))) if rollouts else [[]]

    def _update(self, batch: Batch, *, step: int, first_attempt: int, version: int) -> Update:
        reports: list[StepReport] = []
        before = self.trainer.scaler.state_dict()
        while True:
            attempt = first_attempt + len(reports)
            with self.progress("training", len(batch.microbatches_RM[0])) as bar:
                report = self.trainer.attempt(
                    batch, step=step, attempt=attempt, version=version, on_microbatch=bar.advance
                )
            retry = report.reason == "overflow" and self.config.on_overflow == "retry"
            if retry and len(reports) < self.config.max_retries:
                reports.append(report)
                continue
            if retry or (reports and report.reason == "nonfinite_grad"):
                report = self._not_an_overflow(report, before)
            reports.append(self._budgeted(report))
            self._refresh_reference(report)
            return Update(batch, tuple(reports))

    def _not_an_overflow(self, report: StepReport, before: dict[str, float]) -> StepReport:
        """No scale clears it, so the scale was never the matter: it goes back to what it was."""
        self.trainer.scaler.restore(before)
        halt = self.config.on_nonfinite == "halt"
        return replace(
            report,
            verdict="halted" if halt else "skipped",
            reason="nonfinite_grad",
            next_loss_scale=self.trainer.scaler.scale,
        )

    def _budgeted(self, report: StepReport) -> StepReport:
        if report.verdict == "applied":
            self.consecutive_skips = 0
        elif report.verdict == "skipped" and report.reason not in UNCOUNTED:
            self.consecutive_skips += 1
            if self.consecutive_skips > self.config.max_consecutive_skips:
                return replace(report, verdict="halted", reason="skip_budget_exhausted")
        return report

    def _refresh_reference(self, report: StepReport) -> None:
        roles, interval = self.trainer.roles, self.reference_interval
        due = interval and report.verdict == "applied" and self.trainer.updates % interval == 0
        if due and roles.reference is not None:
            roles.reference.copy_from(roles.policy)
