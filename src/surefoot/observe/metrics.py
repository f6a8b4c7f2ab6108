"""metrics.jsonl: one line of strict JSON a record, readable while the run goes on.

JSON has no NaN and no infinities: they are written as the strings "nan", "inf" and "-inf".
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefoot.observe.durable import write_atomic
from surefoot.types.errors import SurefootError

SPELLED = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
RESERVED = ("step", "time")


@dataclass(frozen=True, slots=True)
class Truncation:
    """What `MetricsLog.truncate` did. `torn`: lines among the moved that were not whole records."""

    kept: int
    moved: int
    torn: int


class MetricsLog:
    """Appends; each record reaches the file in one write, so a kill leaves at most one torn line, the last."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, step: int, time: float, metrics: Mapping[str, float]) -> None:
        """`time` in seconds since 1970. SurefootError where the file ends in a torn line: `truncate` it first."""
        for name in RESERVED:
            if name in metrics:
                raise ValueError(f"{name} cannot name a metric")
        record = {"step": step, "time": time, **{name: spell(value) for name, value in metrics.items()}}
        line = json.dumps(record, allow_nan=False).encode() + b"\n"
        file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            size = os.fstat(file).st_size
            if size and os.pread(file, 1, size - 1) != b"\n":
                raise SurefootError(f"{self.path}: ends in a torn line")
            if os.write(file, line) != len(line):
                raise SurefootError(f"{self.path}: the disk took only part of a record")
        finally:
            os.close(file)

    def truncate(self, after_step: int, keep_dir: Path) -> Truncation:
        """A resume at `after_step`: later records, and torn lines, move to keep_dir/metrics-superseded.jsonl."""
        lines = self.path.read_bytes().splitlines(keepends=True) if self.path.exists() else []
        kept: list[bytes] = []
        moved: list[bytes] = []
        torn = 0
        for line in lines:
            record = _record(line)
            torn += record is None
            (moved if record is None or record["step"] > after_step else kept).append(line)
        if moved:
            with open(keep_dir / "metrics-superseded.jsonl", "ab") as file:
                file.writelines(line.rstrip(b"\n") + b"\n" for line in moved)
                file.flush()
                os.fsync(file.fileno())
            write_atomic(self.path, b"".join(kept))
        return Truncation(len(kept), len(moved), torn)


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Every whole record; NaN and infinities are numbers again. A torn last line, still being written, is left out.

    SurefootError where any other line is not a record.
    """
    lines = path.read_bytes().splitlines(keepends=True)
    records = [_record(line) for line in lines]
    for number, record in enumerate(records[:-1], start=1):
        if record is None:
            raise SurefootError(f"{path}:{number}: not a record")
    whole = [record for record in records if record is not None]
    return [{name: SPELLED.get(value, value) for name, value in r.items()} for r in whole]


def spell(value: float) -> float | str:
    """A number as strict JSON can hold it.

    >>> spell(0.5), spell(float("-inf")), spell(float("nan"))
    (0.5, '-inf', 'nan')
    """
    number = float(value)
    return number if math.isfinite(number) else str(number)


def _record(line: bytes) -> dict[str, Any] | None:
    """None for a torn line."""
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and isinstance(record.get("step"), int) else None
