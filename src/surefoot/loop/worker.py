"""Trains on one rollout batch: scores it, cuts it into updates, and answers each attempt's verdict.

The trainer makes one attempt at a time. Here it is decided what follows from its verdict:

overflow        the same batch again at the lowered scale; where no scale helps, it was no overflow
nonfinite_*     with `drop_samples`, the batch again without the samples behind it
skipped         counted, where it is for want of a finite number or of any sample; too many in a row halt
applied         the weights are looked at before anybody else gets them
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import NamedTuple

from surefoot.config.schema import TrainConfig
from surefoot.observe.console import Bar
from surefoot.train.isolate import find_nonfinite_samples
from surefoot.train.minibatch import split
from surefoot.train.prepare import Scores, build_batch, score
from surefoot.train.step import Trainer
from surefoot.types.rollout import Sample, SampleRef
from surefoot.types.train import Batch, StepReport

UNCOUNTED = ("overflow", "zero_signal")  # a lower scale, or a task that is solved: no reason to end a run
NONFINITE = ("nonfinite_loss", "nonfinite_grad")
SHOWN = 8  # samples named in a report's detail

Progress = Callable[[str, int], AbstractContextManager[Bar]]
"""(what is under way, how much of it there is) -> a bar to advance."""


class Attempt(NamedTuple):
    batch: Batch
    report: StepReport


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """Every attempt at one mini-batch; the last one settles the fate of the samples still in it.

    `dropped`: why each sample that was taken out of it was.
    """

    attempts: tuple[Attempt, ...]
    dropped: Mapping[SampleRef, str]

    @property
    def settled(self) -> StepReport:
        return self.attempts[-1].report

    @property
    def batch(self) -> Batch:
        return self.attempts[-1].batch

    @property
    def reports(self) -> tuple[StepReport, ...]:
        return tuple(attempt.report for attempt in self.attempts)


class Worker:
    def __init__(self, trainer: Trainer, config: TrainConfig, reference_interval: int, progress: Progress) -> None:
        self.trainer, self.config, self.reference_interval = trainer, config, reference_interval
        self.progress = progress
        self.consecutive_skips = 0  # for want of a finite number or of any sample

    def train(self, samples: Sequence[Sample], *, step: int, version: int) -> list[Update]:
        """Every update of one rollout batch. Ends early on a verdict of `halted`."""
        scores = score(samples, self.trainer.roles, self.trainer.config, version)
        updates: list[Update] = []

        def update(part: Sequence[Sample]) -> Update:
            made = sum(len(update.attempts) for update in updates)
            updates.append(self._update(part, scores, step=step, first_attempt=made, version=version))
            return updates[-1]

        left = list(samples)
        for epoch in range(self.config.epochs):
            if epoch and not left:
                break
            for part in self._mini_batches(left):
                done = update(part)
                if done.settled.verdict == "halted":
                    return updates
                left = [sample for sample in left if sample.ref not in done.dropped]
        applied = any(update.settled.verdict == "applied" for update in updates)
        if applied and self.trainer.nonfinite_parameters():
            update([])  # an attempt without samples: it finds the weights ruined, and nobody else gets them
        return updates

    def _mini_batches(self, samples: Sequence[Sample]) -> list[list[Sample]]:
        """As many as configured, but no more than there are rollouts left after invalid ones were dropped.

        Where none is left the one empty batch is still attempted: its verdict says so.
        """
        rollouts = {(s.ref.group, s.ref.rollout) for s in samples}
        return split(samples, min(self.config.updates_per_rollout, len(rollouts))) if rollouts else [[]]

    def _update(
        self, samples: Sequence[Sample], scores: Scores, *, step: int, first_attempt: int, version: int
    ) -> Update:
        attempts: list[Attempt] = []
        dropped: dict[SampleRef, str] = {}
        left = list(samples)
        while True:
            batch = build_batch(left, scores, self.trainer.config, self.trainer.roles.policy)
            scale_before = self.trainer.scaler.state_dict()
            *retried, (_, report) = self._until_no_overflow(
                batch, step=step, first=first_attempt + len(attempts), version=version
            )
            bad = self._behind(report, batch)
            if report.reason == "nonfinite_grad":  # no scale cleared it: the scale was never the matter
                self.trainer.scaler.restore(scale_before)
                report = replace(report, next_loss_scale=self.trainer.scaler.loss_scale)
            left = [sample for sample in left if sample.ref not in bad]
            dropped |= {ref: f"{report.reason}: its {what} is not finite" for ref, what in bad.items()}
            report = _naming(report, bad)
            again = bool(bad and left)
            attempts += [*retried, Attempt(batch, report if again else self._budgeted(report))]
            if not again:
                self._refresh_reference(report)
                return Update(tuple(attempts), dropped)

    def _until_no_overflow(self, batch: Batch, *, step: int, first: int, version: int) -> list[Attempt]:
        """Attempts at lower and lower scales, if retries are wanted; the last one is not an overflow then."""
        attempts: list[Attempt] = []
        while True:
            with self.progress("training", len(batch.microbatches_RM[0])) as bar:
                report = self.trainer.attempt(
                    batch, step=step, attempt=first + len(attempts), version=version, on_microbatch=bar.advance
                )
            retry = report.reason == "overflow" and self.config.on_overflow == "retry"
            if retry and len(attempts) == self.config.max_retries:
                report, retry = self._not_an_overflow(report), False
            attempts.append(Attempt(batch, report))
            if not retry:
                return attempts

    def _not_an_overflow(self, report: StepReport) -> StepReport:
        halt = self.config.on_nonfinite == "halt"
        return replace(report, verdict="halted" if halt else "skipped", reason="nonfinite_grad")

    def _behind(self, report: StepReport, batch: Batch) -> dict[SampleRef, str]:
        """The samples to go on without; the scale still is the lowest tried, at which no healthy one overflows."""
        wanted = self.config.on_nonfinite == "drop_samples" and report.reason in NONFINITE
        return find_nonfinite_samples(self.trainer, batch) if wanted else {}

    def _budgeted(self, report: StepReport) -> StepReport:
        if report.verdict == "applied":
            self.consecutive_skips = 0
        elif report.verdict == "skipped" and report.reason not in UNCOUNTED:
            self.consecutive_skips += 1
            if self.consecutive_skips > self.config.max_consecutive_skips:
                last = f"{self.consecutive_skips} skips in a row, the last: {report.reason}"
                detail = ", ".join(filter(None, (last, report.detail)))
                return replace(report, verdict="halted", reason="skip_budget_exhausted", detail=detail)
        return report

    def _refresh_reference(self, report: StepReport) -> None:
        roles, interval = self.trainer.roles, self.reference_interval
        due = interval and report.verdict == "applied" and self.trainer.updates % interval == 0
        if due and roles.reference is not None:
            roles.reference.copy_from(roles.policy)


def _naming(report: StepReport, bad: Mapping[SampleRef, str]) -> StepReport:
    if not bad:
        return report
    named = [f"{ref.group}:{ref.rollout} ({what})" for ref, what in list(bad.items())[:SHOWN]]
    more = [f"and {len(bad) - SHOWN} more"] if len(bad) > SHOWN else []
    told = f"dropped {len(bad)} samples: {', '.join([*named, *more])}"
    return replace(report, detail="; ".join(filter(None, (report.detail, told))))
