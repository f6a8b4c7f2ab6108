"""From a step's outcome to the ledger's rows and the metrics: nothing drawn or sampled is left without a fate."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.loop.outcome import StepOutcome
from surefoot.loop.worker import Attempt
from surefoot.observe.rows import PromptFate, SampleRow, StepRow
from surefoot.types.rollout import Group, Rollout, SampleRef


@dataclass(frozen=True, slots=True)
class RolloutFigures:
    """Of a step's rollouts. Means are NaN where there is nothing to average; rewards are those of valid ones."""

    reward_mean: float
    reward_std: float  # population
    parts: Mapping[str, float]  # mean of each part of the reward, without its weight
    accuracy: float  # share of all rollouts with full marks; an invalid one has none
    length: float  # sampled tokens
    truncated: float  # share that ran into the length limit
    tokens: int
    rollouts: int
    invalid: int


def rollout_figures(groups: Sequence[Group], full_marks: float) -> RolloutFigures:
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    rewards = [rollout.reward for rollout in rollouts if not rollout.invalid]
    lengths = [sum(len(turn.generation.token_ids_C) for turn in rollout.turns) for rollout in rollouts]
    return RolloutFigures(
        reward_mean=_mean(rewards),
        reward_std=float(np.std(rewards)) if rewards else math.nan,
        parts=_part_means(rollouts),
        accuracy=_mean([has_full_marks(rollout, full_marks) for rollout in rollouts]),
        length=_mean(lengths),
        truncated=_mean([rollout.stop == "length" for rollout in rollouts]),
        tokens=sum(lengths),
        rollouts=len(rollouts),
        invalid=len(rollouts) - len(rewards),
    )


def _part_means(rollouts: Sequence[Rollout]) -> dict[str, float]:
    valid = [rollout.reward_parts for rollout in rollouts if not rollout.invalid]
    return {name: _mean([parts[name] for parts in valid]) for name in (valid[0] if valid else ())}


def has_full_marks(rollout: Rollout, full_marks: float) -> bool:
    return not rollout.invalid and rollout.reward >= full_marks - 1e-9


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else math.nan


def step_rows(outcome: StepOutcome, figures: RolloutFigures) -> list[StepRow]:
    """A row an attempt."""
    return [
        _step_row(outcome, figures, number, attempt)
        for number, update in enumerate(outcome.updates)
        for attempt in update.attempts
    ]


def _step_row(outcome: StepOutcome, figures: RolloutFigures, update: int, attempt: Attempt) -> StepRow:
    batch, report = attempt
    return StepRow(
        step=report.step,
        attempt=report.attempt,
        mini_batch=update,
        started_at=outcome.spans.started_at,
        verdict=report.verdict,
        reason=report.reason,
        detail=report.detail,
        policy_version=report.version,
        loss=report.loss,
        grad_norm=report.grad_norm,
        loss_scale=report.loss_scale,
        next_loss_scale=report.next_loss_scale,
        lr=report.lr,
        num_tokens=batch.num_tokens,
        num_samples=batch.num_samples,
        num_prompts=len({ref.group for ref in batch.refs}),
        min_version=batch.min_version,
        max_version=batch.max_version,
        nonfinite_inputs=report.nonfinite.inputs,
        nonfinite_logprobs=report.nonfinite.logprobs,
        nonfinite_losses=report.nonfinite.losses,
        nonfinite_grad=report.nonfinite.gradient,
        mismatch_mean=report.metrics["mismatch_mean"],
        mismatch_p99=report.metrics["mismatch_p99"],
        mismatch_max=report.metrics["mismatch_max"],
        reward_mean=figures.reward_mean,
        reward_std=figures.reward_std,
        old_source=batch.old_source,
        bundle="",
        seconds=outcome.spans.total,
        spans=outcome.spans.seconds,
    )


@dataclass(frozen=True, slots=True)
class SampleFate:
    """Trained if any applied update held the sample, else dropped: taken out of a batch, or for the reason of the last
    update that was not applied."""

    updates: int  # applied ones
    reason: str


def sample_fates(outcome: StepOutcome) -> dict[SampleRef, SampleFate]:
    applied: Counter[SampleRef] = Counter()
    refused: dict[SampleRef, str] = {}
    for update in outcome.updates:
        report = update.settled
        refused |= update.dropped
        for ref in update.batch.refs:
            applied[ref] += report.verdict == "applied"
            if report.verdict != "applied" and ref not in update.dropped:
                refused[ref] = f"{report.verdict}: {report.reason}"
    halted = f"halted: {outcome.halted.reason}" if outcome.halted else ""
    reasons = {s.ref: refused.get(s.ref, halted) for s in outcome.samples}  # a halt leaves later mini-batches untried
    return {ref: SampleFate(applied[ref], "" if applied[ref] else why) for ref, why in reasons.items()}


def sample_rows(outcome: StepOutcome) -> list[SampleRow]:
    """A row a sample, and one for each rollout that became none because it is invalid."""
    rollouts = dict(outcome.rollouts())
    fates = sample_fates(outcome)
    rows = [_invalid_row(outcome.step, ref, rollout) for ref, rollout in rollouts.items() if rollout.invalid]
    for sample in outcome.samples:
        ref, fate = sample.ref, fates[sample.ref]
        rollout = rollouts[SampleRef(ref.group, ref.rollout, 0)]
        versions = sample.versions_L[sample.loss_mask_L]
        rows.append(
            SampleRow(
                draw=ref.group,
                rollout=ref.rollout,
                part=ref.part,
                step=outcome.step,
                fate="trained" if fate.updates else "dropped",
                reason=fate.reason,
                updates=fate.updates,
                num_tokens=len(versions),
                min_version=int(versions.min()),
                max_version=int(versions.max()),
                reward=rollout.reward,
                stop=rollout.stop,
            )
        )
    return rows


def _invalid_row(step: int, ref: SampleRef, rollout: Rollout) -> SampleRow:
    return SampleRow(
        draw=ref.group,
        rollout=ref.rollout,
        part=ref.part,
        step=step,
        fate="dropped",
        reason=rollout.invalid,
        updates=0,
        num_tokens=0,
        min_version=-1,
        max_version=-1,
        reward=rollout.reward,
        stop=rollout.stop,
    )


def prompt_fates(outcome: StepOutcome, rows: Sequence[SampleRow]) -> list[PromptFate]:
    """A fate for every draw of the step, from the fates of its samples."""
    by_draw: dict[int, list[SampleRow]] = {draw.number: [] for draw in outcome.draws}
    for row in rows:
        by_draw[row.draw].append(row)
    return [_prompt_fate(outcome, number, samples) for number, samples in by_draw.items()]


def _prompt_fate(outcome: StepOutcome, number: int, samples: Sequence[SampleRow]) -> PromptFate:
    lost = Counter(row.reason for row in samples if row.fate == "dropped")
    why = "; ".join(f"{count} x {reason}" for reason, count in sorted(lost.items()))
    if not samples:
        return PromptFate(number, "dropped", outcome.collected.dropped[number], outcome.step)
    if not lost:
        return PromptFate(number, "trained", "", outcome.step)
    return PromptFate(number, "dropped" if sum(lost.values()) == len(samples) else "partly_trained", why, outcome.step)


def step_metrics(outcome: StepOutcome, figures: RolloutFigures) -> dict[str, float]:
    """What metrics.jsonl holds of a step: rollouts, the last attempt, seconds by stage."""
    last = outcome.updates[-1].settled
    attempts = sum(len(update.reports) for update in outcome.updates)
    return {
        "reward/mean": figures.reward_mean,
        "reward/std": figures.reward_std,
        **{f"reward_part/{name}": value for name, value in figures.parts.items()},
        "rollout/accuracy": figures.accuracy,
        "rollout/length": figures.length,
        "rollout/truncated": figures.truncated,
        "rollout/tokens": float(figures.tokens),
        "rollout/invalid": float(figures.invalid),
        **{f"groups/{why}": float(count) for why, count in outcome.advantages.degenerate.items()},
        "train/applied": float(sum(update.settled.verdict == "applied" for update in outcome.updates)),
        "train/attempts": float(attempts),
        "train/loss": last.loss,
        "train/grad_norm": last.grad_norm,
        "train/loss_scale": last.loss_scale,
        "train/lr": last.lr,
        **{f"train/{name}": value for name, value in last.metrics.items()},
        **{f"seconds/{name}": value for name, value in outcome.spans.seconds.items()},
        "seconds/step": outcome.spans.total,
    }
