"""TensorBoard's event files, written one whole record at a time.

Values are float32, as TensorBoard keeps them; NaN and infinities are written as they are.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class TensorBoardTracker:
    """`resumed_at`: the last step that stands; what earlier files hold after it is no longer shown. None: a new run."""

    name = "tensorboard"

    def __init__(self, folder: Path, resumed_at: int | None) -> None:
        self._folder, self._resumed_at = folder, resumed_at
        self._writer: Any = None

    def open(self) -> None:
        from tensorboard.compat.proto.event_pb2 import SessionLog
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._folder.mkdir(parents=True, exist_ok=True)
        # Files are read in the order of their names: a number keeps it where a clock that was set back would not.
        number = 1 + max((int(path.suffix[1:]) for path in self._folder.glob("events.out.tfevents.*")), default=0)
        file = open(self._folder / f"events.out.tfevents.{number:06d}", "xb")  # noqa: SIM115 (open for the whole run)
        self._writer = RecordWriter(file)
        self._write(file_version="brain.Event:2")
        if self._resumed_at is not None:
            self._write(step=self._resumed_at + 1, session_log=SessionLog(status=SessionLog.START))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        self._write(step=step, summary=Summary(value=values))

    def close(self) -> None:
        self._writer.close()

    def abandon(self) -> None:
        """Nothing to end: a write to a stuck disk cannot be interrupted, and every record written was flushed."""

    def _write(self, **fields: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._writer.write(Event(wall_time=time.time(), **fields).SerializeToString())
        self._writer.flush()
