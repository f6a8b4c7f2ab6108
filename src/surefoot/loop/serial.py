"""The serial loop, whole: draw, sample, score, train, publish, record. Read this first.

Each step finishes before the next begins, so a step's tokens all come from the current policy. Every rank runs this
loop on the same draws; rank 0 records. What a step leaves behind is in the ledger before a checkpoint speaks of it.
"""

from collections.abc import Callable, Sequence

import torch

from surefoot.algos import group_advantages
from surefoot.config.schema import AlgoConfig
from surefoot.data.samples import group_rewards, samples_from_groups
from surefoot.loop.outcome import Advantages, StepOutcome
from surefoot.loop.parts import Parts
from surefoot.observe.spans import Spans
from surefoot.types.errors import RunHalted
from surefoot.types.rollout import Group


async def run_serial(parts: Parts, checkpoint: Callable[[], None]) -> None:
    """Steps until the configured number, or until the data end. Raises `RunHalted` with the ledger's reason."""
    position = parts.position
    if position.step == 0 and parts.config.eval.before:
        await parts.evaluate()
    while not parts.finished:
        spans = Spans()
        step = position.step + 1
        draws = parts.stream.draw(parts.config.rollout.prompts_per_step)
        parts.recorder.drawn(step, draws)

        with spans.measure("rollout"), parts.recorder.progress("rollouts", len(parts.collector.mine(draws))) as bar:
            collected = await parts.collector.collect(draws, bar.advance)
        advantages = advantages_of(collected.groups, parts.config.algo)
        samples = samples_from_groups(collected.groups, advantages)
        with spans.measure("train"):
            updates = parts.worker.train(samples, step=step, version=position.version)
        outcome = StepOutcome(step, tuple(draws), collected, advantages, tuple(samples), tuple(updates), spans)
        position.advance(outcome, cursor=parts.stream.cursor)
        if outcome.applied:
            with spans.measure("publish"):
                parts.publisher.publish(position.version)
        parts.recorder.record(outcome)
        if outcome.halted is not None:
            raise RunHalted(f"step {step}: {outcome.halted.reason}")
        if parts.due(parts.config.eval.every):
            await parts.evaluate()
        if parts.due(parts.config.checkpoint.every):
            checkpoint()
    if position.step and parts.config.eval.after and not parts.due(parts.config.eval.every):
        await parts.evaluate()


def advantages_of(groups: Sequence[Group], algo: AlgoConfig) -> Advantages:
    """The advantage of each rollout, by (group, index in the group); 0 for an invalid one."""
    rewards_N, group_ids_N, valid_N, keys = group_rewards(groups)
    values_N = group_advantages(
        torch.from_numpy(rewards_N),
        torch.from_numpy(group_ids_N),
        estimator=algo.estimator,
        valid=torch.from_numpy(valid_N),
        std_eps=algo.std_eps,
    )
    return dict(zip(keys, values_N.tolist(), strict=True))
