"""Clocks for work whose device runs behind the host, and a watch over where the host waits for it."""

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

SYNC_WARNING = "called a synchronizing CUDA operation"  # what torch's debug mode says
Work = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds. `device`: between two events on its stream, gaps included; None on the CPU."""

    wall: float
    device: float | None


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds of a part by itself. `serial`: from an idle device to an idle device again, so host and device time
    as if nothing else hid them. `kernels`: the device's share of it, None on the CPU."""

    serial: float
    kernels: float | None

    def __add__(self, other: "Cost") -> "Cost":
        kernels = None if self.kernels is None or other.kernels is None else self.kernels + other.kernels
        return Cost(self.serial + other.serial, kernels)

    def __sub__(self, other: "Cost") -> "Cost":
        kernels = None if self.kernels is None or other.kernels is None else self.kernels - other.kernels
        return Cost(self.serial - other.serial, kernels)

    @property
    def bound(self) -> float:
        """Host and device time added up. What the host waited for is in it twice, so it can only be too high."""
        return self.serial + (self.kernels or 0.0)


def drain(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def serial_ms(work: Work, device: torch.device) -> float:
    drain(device)
    start = time.perf_counter()
    work()
    drain(device)
    return (time.perf_counter() - start) * 1e3


def time_once(work: Work, device: torch.device) -> Timing:
    """From an idle device until all that the work queued is done."""
    if device.type != "cuda":
        return Timing(serial_ms(work, device), None)
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def between_events() -> None:
        first.record()
        work()
        last.record()

    wall = serial_ms(between_events, device)
    return Timing(wall, first.elapsed_time(last))


def kernels_ms(work: Work, device: torch.device) -> float | None:
    """Time in the kernels and copies that the work launched, by the profiler; None where it saw none."""
    if device.type != "cuda":
        return None
    from torch._C._autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    drain(device)
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        work()
        drain(device)
    events = [event for event in profiler.events() if event.device_type == DeviceType.CUDA]
    seen = [float(event.time_range.elapsed_us()) for event in events if not event.is_user_annotation]
    return sum(seen) / 1e3 if seen else None


@dataclass(frozen=True, slots=True)
class Syncs:
    """Places, "file:line", where the host waited for the device, with how often it did."""

    before: dict[str, int]
    after: dict[str, int]


class SyncWatch:
    """`mark` is to be called once, between what counts as before and what counts as after."""

    def __init__(self) -> None:
        self._caught: list[warnings.WarningMessage] = []
        self._mark: int | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        torch.cuda.set_sync_debug_mode("warn")
        try:
            with self.catching():
                yield
        finally:
            torch.cuda.set_sync_debug_mode("default")

    @contextmanager
    def catching(self) -> Iterator[None]:
        with warnings.catch_warnings(record=True) as self._caught:
            warnings.simplefilter("always")
            yield

    def mark(self) -> None:
        self._mark = len(self._caught)

    @property
    def syncs(self) -> Syncs:
        if self._mark is None:
            raise ValueError("nothing was marked, so there is no before and after")
        return Syncs(_places(self._caught[: self._mark]), _places(self._caught[self._mark :]))


def _places(caught: list[warnings.WarningMessage]) -> dict[str, int]:
    """The file's last two names tell it apart: "train/step.py:174"."""
    waits = [warning for warning in caught if SYNC_WARNING in str(warning.message)]
    return dict(Counter(f"{'/'.join(Path(w.filename).parts[-2:])}:{w.lineno}" for w in waits))
