"""The serial loop, whole: draw, sample, score, train, publish, record. Read this first.

Each step finishes before the next begins, so a step's tokens all come from the current policy. Every rank runs this
loop on the same draws; rank 0 records. What a step leaves behind is in the ledger before a checkpoint speaks of it.
"""

from collections.abc import Callable, Sequence

from surefoot.data.samples import samples_from_groups
from surefoot.loop.collect import Collected
from surefoot.loop.outcome import StepOutcome
from surefoot.loop.parts import Parts
from surefoot.loop.record import Recorder
from surefoot.observe.spans import Spans
from surefoot.types.errors import EngineError, RunHalted
from surefoot.types.rollout import Draw


async def run_serial(parts: Parts, recorder: Recorder, checkpoint: Callable[[], None]) -> None:
    """Steps until the configured number, or until the data end.

    Raises `RunHalted` with the ledger's reason, `RunStopped` on a signal; the last finished step stands.
    """
    position, first = parts.position, parts.position.step
    if position.step == 0 and parts.config.eval.before:
        await evaluate(parts, recorder)
    while not parts.finished:
        spans = Spans()
        step = position.step + 1
        draws = parts.stream.draw(parts.config.rollout.prompts_per_step)
        recorder.drawn(step, draws)

        with spans.measure("rollout"):
            collected = await sample(parts, draws)
        advantages = parts.advantages(collected.groups, step)
        samples = samples_from_groups(collected.groups, advantages.by_rollout)
        with spans.measure("train"):
            updates = parts.worker.train(samples, step=step, version=position.version)
        outcome = StepOutcome(step, tuple(draws), collected, advantages, tuple(samples), tuple(updates), spans)
        position.advance(outcome, cursor=parts.stream.cursor)
        if outcome.applied and outcome.halted is None:
            with spans.measure("publish"):
                parts.publisher.publish(position.version)
        recorder.record(outcome, parts.full_marks)
        if outcome.halted is not None:
            raise RunHalted(recorder.halted(outcome.halted))
        if parts.due(parts.config.eval.every):
            await evaluate(parts, recorder)
        if parts.due(parts.config.checkpoint.every):
            checkpoint()
    if position.step > first and parts.config.eval.after and not parts.due(parts.config.eval.every):
        await evaluate(parts, recorder)


async def sample(parts: Parts, draws: Sequence[Draw]) -> Collected:
    """Scored groups; none where ruined weights make the sampler fail: the step's verdict then is about the weights."""
    with parts.console.progress("rollouts", len(parts.collector.mine(draws))) as bar:
        try:
            return await parts.collector.collect(draws, bar.advance)
        except EngineError as error:
            if not parts.trainer.nonfinite_parameters():
                raise
            return Collected((), {draw.number: f"not sampled: {error}" for draw in draws})


async def evaluate(parts: Parts, recorder: Recorder) -> None:
    for eval_set in parts.eval_sets:
        with parts.console.progress(f"eval {eval_set.name}", len(eval_set.collector.mine(eval_set.draws))) as bar:
            evaluation = await eval_set.evaluate(bar.advance)
        recorder.evaluated(parts.position.step, evaluation)
