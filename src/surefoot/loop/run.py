"""One run from its configuration to its end: `run(config)` is what `surefoot train` calls."""

import asyncio
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

import torch

from surefoot.config.schema import RunConfig
from surefoot.envs.workers.pool import WorkerPool
from surefoot.loop import recover
from surefoot.loop.parts import Parts, build_parts
from surefoot.loop.record import Recorder
from surefoot.loop.serial import run_serial
from surefoot.loop.stop import RunStopped
from surefoot.observe.console import Console
from surefoot.observe.rundir import RunDir, default_run_dir
from surefoot.observe.trackers.fanout import require_installed
from surefoot.train.shard import World, join_world, leave_world
from surefoot.types.errors import RunHalted, UsageError


@dataclass(frozen=True, slots=True)
class RunResult:
    run_dir: Path
    steps: int
    metrics: dict[str, float]  # the newest value of each
    stopped: str  # the signal that ended the run early, "" where none did


def run(config: RunConfig, *, resume: bool = False) -> RunResult:
    """Train as `config` says. Raises `UsageError` for what the user can mend, `RunHalted` where it stopped itself."""
    world = join_world(config.model.device, config.train.collective_timeout)
    set_threads(config.loop.threads)
    run_dir = RunDir(run_folder(config, world, resume))
    console = Console(quiet=not world.leads)
    try:
        if world.leads:
            run_dir.check(resume=resume)
            require_installed(config.observe.trackers)
        with WorkerPool(config.env.workers) as pool:
            parts = build_parts(config, world, console, pool)
            if world.leads:  # only now: a mistake in data or model must not leave a folder behind
                run_dir.create(resume=resume)
            return record(parts, run_dir, resume=resume)
    finally:
        leave_world()


def record(parts: Parts, run_dir: RunDir, *, resume: bool) -> RunResult:
    """The run, with its end in the ledger however it comes."""
    recorder = Recorder(run_dir if parts.world.leads else None, parts.config.observe, parts.console)
    try:
        stopped = train(parts, recorder, run_dir, resume=resume)
    except BaseException as error:
        recorder.event("ended", f"step {parts.position.step}: {type(error).__name__}: {error}")
        raise
    finally:
        recorder.close()
    end = f"stopped by {stopped}, --resume goes on" if stopped else "done"
    parts.console.info(f"{end}: {parts.position.step} steps in {run_dir.path}")
    return RunResult(run_dir.path, parts.position.step, recorder.last, stopped)


def train(parts: Parts, recorder: Recorder, run_dir: RunDir, *, resume: bool) -> str:
    """The whole run; returns the signal that ended it early, "" where none did."""
    if resume:
        recover.resume(parts, recorder, run_dir)
    recorder.configured(parts.config)
    for note in parts.notes:
        recorder.note(note.kind, note.text)
    first, stopped = parts.position.step, ""
    parts.publisher.publish(parts.position.version)
    save = partial(recover.save, parts, recorder, run_dir)
    try:
        asyncio.run(serve(parts, recorder, save))
    except RunStopped as end:
        stopped = end.signal
        recorder.event("stopped", f"step {parts.position.step}: {stopped}")
    except RunHalted as end:
        recorder.event("halted", str(end))
        if not parts.trainer.nonfinite_parameters():
            save()  # a halt is no reason to lose what was trained before it
        raise
    if not parts.due(parts.config.checkpoint.every) and parts.position.step > first:
        save()
    return stopped


async def serve(parts: Parts, recorder: Recorder, save: Callable[[], None]) -> None:
    with parts.stop.listening():
        await run_serial(parts, recorder, save)


def run_folder(config: RunConfig, world: World, resume: bool) -> Path:
    """As configured, else one named by the time; to resume, the newest of that name. Rank 0 decides for all."""
    if config.observe.run_dir:
        return Path(config.observe.run_dir)
    if not resume:
        chosen = default_run_dir(config.loop.name, datetime.now())
        return Path(world.gather(str(chosen))[0])
    named = re.compile(re.escape(config.loop.name) + r"-\d{8}-\d{6}")
    runs = sorted(
        path for path in Path("runs").glob("*") if named.fullmatch(path.name) and RunDir(path).ledger.exists()
    )
    if not runs:
        raise UsageError(f"--resume: no run named runs/{config.loop.name}-<time>; set observe.run_dir")
    return runs[-1]


def set_threads(threads: int) -> None:
    ranks_here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    torch.set_num_threads(threads or max(1, (os.cpu_count() or 1) // ranks_here))
