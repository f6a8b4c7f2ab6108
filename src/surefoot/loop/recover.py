"""Checkpoints of a serial run: what they hold, and how a run goes on from the newest whole one."""

from typing import Any

from surefoot.loop.parts import Parts
from surefoot.loop.position import Position
from surefoot.loop.record import Recorder
from surefoot.observe.rundir import RunDir
from surefoot.train.checkpoint import find_sound_checkpoint, load_loop_state, load_tensors, save_checkpoint
from surefoot.train.state import number_state, restore, tensor_state, weights_digest
from surefoot.types.errors import CheckpointError, RunHalted, UsageError


def save(parts: Parts, recorder: Recorder, run: RunDir) -> None:
    """A checkpoint of the finished step. Raises `CheckpointError`; the ones before are then as they were."""
    position = parts.position
    if parts.trainer.nonfinite_parameters():
        raise RunHalted(f"step {position.step}: nonfinite_param: the weights are ruined and were not saved")
    path = save_checkpoint(
        run.checkpoints,
        position.step,
        tensors=tensor_state(parts.trainer),
        loop_state=loop_state(parts),
        weights_digest=weights_digest(parts.trainer),
        keep_last=parts.config.checkpoint.keep_last,
        keep_every=parts.config.checkpoint.keep_every,
    )
    recorder.event("checkpoint", path.name)


def loop_state(parts: Parts) -> dict[str, Any]:
    position = parts.position
    return {
        "position": {"step": position.step, "version": position.version, "cursor": position.cursor},
        "consecutive_skips": parts.worker.consecutive_skips,
        "trainer": number_state(parts.trainer),
        "stream": parts.stream.identity,
    }


def resume(parts: Parts, recorder: Recorder, run: RunDir) -> None:
    """Continue from the newest complete checkpoint, from the start where there is none; says what was passed over."""
    path, ignored = find_sound_checkpoint(run.checkpoints)
    for broken, reason in ignored:
        parts.console.warn(f"{broken} is ignored: {reason}")
        recorder.event("checkpoint_ignored", f"{broken.name}: {reason}")
    if path is not None:
        state = load_loop_state(path)
        if state["stream"] != parts.stream.identity:
            raise UsageError(f"{path}: loop.seed or the data changed: prompts would be skipped, or drawn twice")
        load_tensors(path, tensor_state(parts.trainer), verified=True)
        restore(parts.trainer, state["trainer"])
        parts.worker.consecutive_skips = state["consecutive_skips"]
        parts.position = Position(**state["position"])
        parts.stream.seek(parts.position.cursor)
    set_aside = parts.world.gather(recorder.steps_recorded())[0] - parts.position.step
    if set_aside < 0:
        raise CheckpointError(f"{run.ledger}: its ledger ends before {path}: it is not the one this run wrote")
    if set_aside:
        parts.console.warn(f"{set_aside} recorded steps lie past the checkpoint and happen again")
    recorder.resumed(parts.position.step if path else -1, parts.position.cursor)
    parts.console.info(f"resumed after step {parts.position.step}" + (f" from {path}" if path else ""))
