"""One tracker behind a bounded queue, so that the run never waits for it.

    run's thread                          tracker's thread (daemon)
    put ------> [ queue, oldest dropped ] ------> open, log, log, ..., close
    news, end <--------- failure <--------------- raised, or too slow to answer

A thread that hangs is left behind after `abandon`, which ends what it waits for where that is possible.
"""

import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Protocol

from surefoot.types.errors import SurefootError

CAPACITY = 1000  # records; a step makes one or two
PATIENCE = 120.0  # seconds that one call may take


class Tracker(Protocol):
    """`open`, `log` and `close` run in the tracker's own thread and may raise; `abandon` runs in any."""

    @property
    def name(self) -> str: ...

    def open(self) -> None: ...

    def log(self, step: int, metrics: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...

    def abandon(self) -> None:
        """Give up at once: end what another thread waits for here, if anything."""


class Lane:
    """`put`, `news` and `end` are the run's; none of them raises what the tracker raised."""

    def __init__(self, tracker: Tracker, *, capacity: int = CAPACITY, patience: float = PATIENCE) -> None:
        self._tracker, self._capacity, self._patience = tracker, capacity, patience
        self._queue: deque[tuple[int, dict[str, float]]] = deque()
        self._changed = threading.Condition()  # guards everything below
        self._ending = False
        self._busy_since: float | None = None
        self._step: int | None = None  # of the record in hand
        self._offered = self._delivered = self._dropped = 0
        self._failure = ""  # the first; nothing is delivered after it
        self._told = False
        self._thread = threading.Thread(target=self._work, name=f"tracker-{tracker.name}", daemon=True)
        self._thread.start()

    def put(self, step: int, metrics: Mapping[str, float]) -> None:
        with self._changed:
            self._offered += 1
            if self._failure:
                return
            if len(self._queue) == self._capacity:
                self._queue.popleft()
                self._dropped += 1
            self._queue.append((step, {name: float(value) for name, value in metrics.items()}))
            self._changed.notify()

    def news(self) -> str | None:
        """The tracker's failure, the first time that this is asked after it."""
        with self._changed:
            slow = self._busy_since is not None and time.monotonic() - self._busy_since > self._patience
        if slow:
            self._fail(f"no answer for {self._patience:g} s")
        with self._changed:
            if self._told or not self._failure:
                return None
            self._told = True
            since = "" if self._step is None else f" from step {self._step} on"
            return f"tracker {self._tracker.name} is off{since}: {self._failure}"

    def begin_end(self) -> None:
        """No more records come: deliver what waits, then close."""
        with self._changed:
            self._ending = True
            self._changed.notify()

    def end(self, seconds: float) -> str | None:
        """Wait so long for what `begin_end` began. Says once what was not delivered; nothing more of a told failure."""
        if not self._told:
            self._thread.join(max(seconds, 0.0))
        if not self._told and self._thread.is_alive():
            self._fail("it did not finish in time")
            self._thread.join(1.0)
        with self._changed:
            if self._told:
                return None
            self._told = True
            lost = f"{self._offered - self._delivered} of {self._offered} records"
            if self._failure:
                missing = f"; {lost} were not delivered" if self._offered > self._delivered else ""
                return f"tracker {self._tracker.name}: {self._failure}{missing}"
            return f"tracker {self._tracker.name} could not keep up: {lost} were dropped" if self._dropped else None

    def _work(self) -> None:
        try:
            self._call_begins(None)
            self._tracker.open()
            while record := self._next():
                self._tracker.log(*record)
                with self._changed:
                    self._delivered += 1
            self._tracker.close()
        except BaseException as error:  # whatever a library raises, SystemExit too: it is told, and the run goes on
            self._fail(str(error) if isinstance(error, SurefootError) else f"{type(error).__name__}: {error}")
        self._call_ends()

    def _next(self) -> tuple[int, dict[str, float]] | None:
        """The next record; None where the tracker is to be closed."""
        self._call_ends()
        with self._changed:
            while not (self._queue or self._ending or self._failure):
                self._changed.wait()
            record = self._queue.popleft() if self._queue and not self._failure else None
        self._call_begins(record[0] if record else None)
        return record

    def _call_begins(self, step: int | None) -> None:
        with self._changed:
            self._busy_since = time.monotonic()
            if not self._failure:
                self._step = step

    def _call_ends(self) -> None:
        with self._changed:
            self._busy_since = None

    def _fail(self, reason: str) -> None:
        with self._changed:
            if self._failure:
                return
            self._failure = reason
            self._queue.clear()
            self._changed.notify()
        self._tracker.abandon()
