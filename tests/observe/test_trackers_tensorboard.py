"""What TensorBoard shows of a run, read back by TensorBoard's own reader."""

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from surefoot.config.schema import ObserveConfig
from surefoot.observe.rundir import RunDir
from surefoot.observe.trackers.fanout import Trackers
from surefoot.observe.trackers.tensorboard import TensorBoardTracker


def session(folder: Path, resumed_at: int | None, values: Iterable[tuple[int, float]]) -> TensorBoardTracker:
    """A run from its start or resume to its kill: it is never closed."""
    tracker = TensorBoardTracker(folder, resumed_at)
    tracker.open()
    for step, value in values:
        tracker.log(step, {"reward/mean": value})
    return tracker


def read(folder: Path, tag: str = "reward/mean") -> list[tuple[int, float]]:
    events = EventAccumulator(str(folder))
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars(tag)]


def test_values_come_back(tmp_path: Path) -> None:
    run = RunDir(tmp_path / "run")
    run.create()
    trackers = Trackers.open(
        ObserveConfig(trackers=["tensorboard", "tensorboard"]), run, {}, resumed_at=None, warn=pytest.fail
    )
    trackers.log(1, {"loss": 0.1, "grad": math.nan})
    trackers.log(1, {"eval/heldout/accuracy": 0.25})
    trackers.log(2, {"loss": -0.3, "grad": math.inf})
    trackers.close()
    folder = run.path / "logs" / "tensorboard"
    assert read(folder, "loss") == [(1, float(np.float32(0.1))), (2, float(np.float32(-0.3)))]
    assert read(folder, "eval/heldout/accuracy") == [(1, 0.25)]
    assert [step for step, _ in read(folder, "grad")] == [1, 2]
    assert math.isnan(read(folder, "grad")[0][1])
    assert read(folder, "grad")[1][1] == math.inf


def test_resume_replaces_what_came_after_the_checkpoint(tmp_path: Path) -> None:
    killed = [session(tmp_path, None, [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0), (5, 5.0)])]
    assert [step for step, _ in read(tmp_path)] == [1, 2, 3, 4, 5]  # each record is on disk when `log` is back
    killed.append(session(tmp_path, 3, [(4, 40.0)]))
    assert read(tmp_path) == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 40.0)]
    killed.append(session(tmp_path, -1, []))
    killed.append(session(tmp_path, -1, [(0, 0.5), (1, 10.0)]))
    assert read(tmp_path) == [(0, 0.5), (1, 10.0)]


def test_twelfth_session_is_read_last(tmp_path: Path) -> None:
    killed = [session(tmp_path, 0, [(1, float(number))]) for number in range(12)]
    assert len(killed) == len(list(tmp_path.iterdir()))
    assert read(tmp_path) == [(1, 11.0)]


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    run = RunDir(tmp_path / "run")
    run.create()
    (run.logs / "tensorboard").write_text("in the way")
    warnings: list[str] = []
    trackers = Trackers.open(ObserveConfig(trackers=["tensorboard"]), run, {}, resumed_at=None, warn=warnings.append)
    trackers.log(1, {"loss": 0.1})
    trackers.close()
    assert len(warnings) == 1
    assert "FileExistsError" in warnings[0]
