"""A tracker that raises, hangs or is slow costs its own records: the run is not held up, and is told once."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from surefoot.config.schema import ObserveConfig
from surefoot.observe.rundir import RunDir
from surefoot.observe.trackers.fanout import Trackers, require_installed
from surefoot.observe.trackers.lane import Lane
from surefoot.types.errors import SurefootError, UsageError

FULL = OSError(28, "No space left on device")
OFF_FULL = "OSError: [Errno 28] No space left on device"


def fine(step: int) -> None:
    """A tracker without faults."""


class Scripted:
    """Keeps what it is given, and does at each step, -1 at the opening and -2 at the close, what the test wants."""

    def __init__(self, name: str = "scripted", act: Callable[[int], None] = fine) -> None:
        self.name, self._act = name, act
        self.kept: list[tuple[int, Mapping[str, float]]] = []
        self.abandoned = threading.Event()

    def open(self) -> None:
        self._act(-1)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._act(step)
        self.kept.append((step, metrics))

    def close(self) -> None:
        self._act(-2)

    def abandon(self) -> None:
        self.abandoned.set()

    @property
    def steps(self) -> list[int]:
        return [step for step, _ in self.kept]


def fails_at(step: int, error: BaseException) -> Callable[[int], None]:
    def act(now: int) -> None:
        if now == step:
            raise error

    return act


def hangs_at(step: int) -> Callable[[int], None]:
    def act(now: int) -> None:
        if now == step:
            threading.Event().wait()

    return act


def run_steps(*trackers: Scripted, steps: int = 5, pause: float = 0.0) -> tuple[list[str], float]:
    """(warnings, seconds of the slowest `log`) of a run of so many steps; it is closed within 2 seconds."""
    warnings: list[str] = []
    all_of = Trackers([Lane(tracker) for tracker in trackers], warnings.append, close_seconds=1.0)
    slowest = 0.0
    for step in range(1, steps + 1):
        start = time.monotonic()
        all_of.log(step, {"loss": 1 / step})
        slowest = max(slowest, time.monotonic() - start)
        time.sleep(pause)
    start = time.monotonic()
    all_of.close()
    all_of.close()  # the second has nothing to do and to say
    assert time.monotonic() - start < 1.0 + len(trackers) + 1.0
    return warnings, slowest


def test_all_records_arrive_in_order() -> None:
    tracker = Scripted()
    assert run_steps(tracker)[0] == []
    assert tracker.kept == [(step, {"loss": 1 / step}) for step in range(1, 6)]


def test_later_changes_to_the_metrics_do_not_arrive() -> None:
    gate = threading.Event()
    tracker = Scripted(act=lambda step: (gate.wait(10), None)[1])
    all_of = Trackers([Lane(tracker)], pytest.fail)
    metrics = {"loss": 1.0}
    all_of.log(1, metrics)
    metrics["loss"] = 2.0
    gate.set()
    all_of.close()
    assert tracker.kept == [(1, {"loss": 1.0})]


@pytest.mark.parametrize(
    ("step", "error", "kept", "told"),
    [
        (-1, FULL, [], f"tracker scripted is off: {OFF_FULL}"),
        (3, FULL, [1, 2], f"tracker scripted is off from step 3 on: {OFF_FULL}"),
        (3, SurefootError("its process ended"), [1, 2], "tracker scripted is off from step 3 on: its process ended"),
        (3, SystemExit(1), [1, 2], "tracker scripted is off from step 3 on: SystemExit: 1"),
    ],
)
def test_first_failure_is_told_once(step: int, error: BaseException, kept: list[int], told: str) -> None:
    tracker, other = Scripted(act=fails_at(step, error)), Scripted("other")
    warnings, _ = run_steps(tracker, other, pause=0.1)
    assert warnings == [told]
    assert tracker.steps == kept
    assert other.steps == [1, 2, 3, 4, 5]
    assert tracker.abandoned.is_set()
    assert not other.abandoned.is_set()


def test_failure_at_the_close() -> None:
    tracker = Scripted(act=fails_at(-2, FULL))
    assert run_steps(tracker)[0] == [f"tracker scripted: {OFF_FULL}"]  # every record was taken
    assert tracker.steps == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("step", "lost"), [(-1, "; 5 of 5 records were not delivered"), (-2, "")])
def test_hanging_tracker_costs_the_deadline_and_no_more(step: int, lost: str) -> None:
    tracker = Scripted(act=hangs_at(step))
    warnings, slowest = run_steps(tracker)
    assert warnings == [f"tracker scripted: it did not finish in time{lost}"]
    assert slowest < 0.5
    assert tracker.abandoned.is_set()


def test_tracker_that_does_not_answer_is_turned_off() -> None:
    tracker = Scripted(act=hangs_at(2))
    warnings: list[str] = []
    all_of = Trackers([Lane(tracker, patience=0.5)], warnings.append, close_seconds=0.2)
    all_of.log(1, {})
    all_of.log(2, {})
    time.sleep(0.1)
    all_of.log(3, {})
    assert warnings == []
    time.sleep(0.7)
    all_of.log(4, {})
    all_of.log(5, {})
    assert warnings == ["tracker scripted is off from step 2 on: no answer for 0.5 s"]
    assert tracker.abandoned.is_set()
    all_of.close()
    assert len(warnings) == 1


def test_idle_tracker_is_not_a_slow_one() -> None:
    tracker = Scripted()
    all_of = Trackers([Lane(tracker, patience=0.2)], pytest.fail)
    all_of.log(1, {})
    time.sleep(0.5)  # a long step
    all_of.log(2, {})
    all_of.close()
    assert tracker.steps == [1, 2]


def test_full_queue_drops_the_oldest_and_counts() -> None:
    begun, gate = threading.Event(), threading.Event()

    def act(step: int) -> None:
        if step == 1:
            begun.set()
            gate.wait(10)

    tracker = Scripted(act=act)
    warnings: list[str] = []
    all_of = Trackers([Lane(tracker, capacity=3)], warnings.append)
    all_of.log(1, {})
    assert begun.wait(10)
    for step in range(2, 7):
        all_of.log(step, {})
    gate.set()
    all_of.close()
    assert tracker.steps == [1, 4, 5, 6]
    assert warnings == ["tracker scripted could not keep up: 2 of 6 records were dropped"]


def test_warnings_come_in_the_thread_of_the_run() -> None:
    """The ledger, where they go, may be used in one thread only."""
    threads: set[int] = set()
    all_of = Trackers([Lane(Scripted(act=fails_at(-1, FULL)))], lambda text: threads.add(threading.get_ident()))
    time.sleep(0.1)
    all_of.log(1, {})
    all_of.close()
    assert threads == {threading.get_ident()}


def test_hung_tracker_does_not_keep_the_process_alive() -> None:
    script = (
        "from test_trackers import *\n"
        "all_of = Trackers([Lane(Scripted(act=hangs_at(1)))], print, close_seconds=0.2)\n"
        "all_of.log(1, {})\n"
        "all_of.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parent,
    )
    assert done.stdout == "tracker scripted: it did not finish in time; 1 of 1 records were not delivered\n"


def test_missing_package_is_an_error_of_use() -> None:
    require_installed(["json"])
    with pytest.raises(UsageError) as error:
        require_installed(["json", "no_such_tracker"])
    expected = "observe.trackers: no_such_tracker is not installed: pip install 'surefoot[no_such_tracker]'"
    assert str(error.value) == expected


def test_no_trackers(tmp_path: Path) -> None:
    all_of = Trackers.open(ObserveConfig(), RunDir(tmp_path), {}, resumed_at=None, warn=pytest.fail)
    all_of.log(1, {"loss": 1.0})
    all_of.close()
    assert list(tmp_path.iterdir()) == []
