"""Writes down what a step did: rollouts, ledger, metrics, the terminal. Only rank 0 has files to write.

Order matters: the ledger's transaction is what makes a step count, so the rollouts it speaks of are there before it.
"""

import time
from collections import Counter
from collections.abc import Sequence

from surefoot.config.dump import dump_config
from surefoot.config.schema import ObserveConfig, RunConfig
from surefoot.loop.account import RolloutFigures, prompt_fates, rollout_figures, sample_rows, step_metrics, step_rows
from surefoot.loop.evaluate import Evaluation
from surefoot.loop.halt import describe, halt_report
from surefoot.loop.outcome import StepOutcome
from surefoot.observe.console import Console
from surefoot.observe.durable import write_atomic
from surefoot.observe.ledger import Ledger
from surefoot.observe.metrics import MetricsLog
from surefoot.observe.rollouts import readable, write_rollouts
from surefoot.observe.rundir import RunDir
from surefoot.observe.trackers.fanout import Trackers
from surefoot.types.rollout import Draw
from surefoot.types.train import StepReport

SHOWN = 20  # lines of a note


class Recorder:
    """`run` is None on ranks that do not lead: they record nothing and say nothing."""

    def __init__(self, run: RunDir | None, config: ObserveConfig, console: Console) -> None:
        self.run, self.config, self.console = run, config, console
        self.ledger = Ledger.open(run.ledger) if run else None
        self.metrics = MetricsLog(run.metrics) if run else None
        self.trackers: Trackers | None = None  # from `configured` on
        self._resumed_at: int | None = None
        self.last: dict[str, float] = {}  # newest value of every metric

    def configured(self, config: RunConfig) -> None:
        """Save the resolved configuration, and say which keys a resume changed; from here on metrics are tracked."""
        if not self.run:
            return
        text = dump_config(config)
        if self.run.config.exists() and (before := self.run.config.read_text(encoding="utf8")) != text:
            changed = sorted(set(before.splitlines()) ^ set(text.splitlines()))
            self.event("config_changed", "\n".join(changed))
            self.console.warn(f"the configuration is not that of {self.run.config}: {'; '.join(changed)}")
        write_atomic(self.run.config, text.encode())
        self.trackers = Trackers.open(
            self.config,
            self.run,
            config.model_dump(mode="json"),
            resumed_at=self._resumed_at,
            warn=lambda problem: self.note("tracker", problem),
        )

    def drawn(self, step: int, draws: Sequence[Draw]) -> None:
        if self.ledger:
            self.ledger.record_draws(step, draws)

    def record(self, outcome: StepOutcome, full_marks: float) -> None:
        if not (self.run and self.ledger):
            return
        figures = rollout_figures(outcome.collected.groups, full_marks)
        if self.config.save_rollouts:
            write_rollouts(self.run.rollouts(outcome.step), outcome.collected.groups, outcome.advantages.by_rollout)
        samples = sample_rows(outcome)
        self.ledger.commit_step(step_rows(outcome, figures), prompt_fates(outcome, samples), samples)
        self._append(outcome.step, step_metrics(outcome, figures))
        self._show(outcome, figures)

    def evaluated(self, step: int, evaluation: Evaluation) -> None:
        if self.run and self.config.save_rollouts:
            write_rollouts(self.run.evaluation(step, evaluation.name), evaluation.collected.groups, {})
        self._append(step, evaluation.metrics())
        self.console.info(f"step {step}: {evaluation.line()}")

    def halted(self, report: StepReport) -> str:
        """Write the report of a halt. Returns the run's last words, which name the reason."""
        words = f"step {report.step}: {report.reason}" + (f": {report.detail}" if report.detail else "")
        if self.run and self.ledger:
            path = self.run.logs / f"halt-step-{report.step:06d}.txt"
            path.parent.mkdir(exist_ok=True)
            rows = self.ledger.steps()
            write_atomic(path, halt_report(rows, self.run.checkpoints).encode())
            words = f"report: {path}\n{words}"
        return words

    def note(self, kind: str, text: str) -> None:
        """Something the user should know: whole in the ledger, its first lines on the terminal."""
        first, *rest = text.splitlines()
        more = [f"and {len(rest) - SHOWN} more, in the ledger's events"] if len(rest) > SHOWN else []
        self.console.warn("\n".join([first, *rest[:SHOWN], *more]))
        self.event(kind, text)

    def event(self, kind: str, detail: str) -> None:
        if self.ledger:
            self.ledger.record_event(kind, detail)

    def steps_recorded(self) -> int:
        return max((row.step for row in self.ledger.steps()), default=0) if self.ledger else 0

    def resumed(self, step: int, cursor: int) -> None:
        """Everything after the checkpoint of `step` happens again, and with -1 everything: it is set aside."""
        self._resumed_at = step
        if self.run and self.ledger and self.metrics:
            self.ledger.supersede(step, first_draw=cursor)
            cut = self.metrics.truncate(step, self.run.logs)
            if cut.torn:
                self.console.warn(f"{self.run.metrics}: {cut.torn} torn lines were moved to {self.run.logs}")

    def close(self) -> None:
        if self.trackers:
            self.trackers.close()
        if self.ledger:
            self.ledger.close()

    def _append(self, step: int, metrics: dict[str, float]) -> None:
        self.last |= metrics
        if self.metrics:
            self.metrics.append(step, time.time(), metrics)
        if self.trackers:
            self.trackers.log(step, metrics)

    def _show(self, outcome: StepOutcome, figures: RolloutFigures) -> None:
        for report in (report for update in outcome.updates for report in update.reports):
            if report.verdict != "applied":
                self.console.warn(describe(report))
        lost = Counter(rollout.invalid for _, rollout in outcome.rollouts() if rollout.invalid)
        lost.update(outcome.collected.dropped.values())
        for reason, count in lost.most_common(3):
            self.console.warn(f"step {outcome.step}: {count} dropped: {reason}")
        last = outcome.updates[-1].settled
        self.console.step(
            step=outcome.step,
            reward_mean=figures.reward_mean,
            reward_std=figures.reward_std,
            accuracy=figures.accuracy,
            length=figures.length,
            loss=last.loss,
            grad_norm=last.grad_norm,
            kl=last.metrics["kl_old"],
            mismatch=last.metrics["mismatch_max"],
            tokens_per_second=figures.tokens / outcome.spans.total,
            seconds=outcome.spans.total,
            verdict=last.verdict,
            reason=last.reason,
        )
        rollouts = [(group.prompt, group.rollouts[0]) for group in outcome.collected.groups if group.rollouts]
        for prompt, rollout in rollouts[: self.config.show_samples]:
            self.console.sample(
                prompt=readable(prompt.messages),
                response=rollout.response,
                answers=rollout.answers,
                reward=rollout.reward,
            )
