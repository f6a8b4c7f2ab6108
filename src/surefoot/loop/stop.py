"""SIGTERM and Ctrl-C: the run ends at a whole step, with a checkpoint; a second signal ends it at once.

signal --> Stop.reason --> Collector.collect gives up its rollouts --> all ranks agree --> RunStopped
           (while a step trains, the signal waits for the step's end)
"""

import asyncio
import signal
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from surefoot.types.errors import SurefootError

SIGNALS = (signal.SIGTERM, signal.SIGINT)
T = TypeVar("T")


class RunStopped(SurefootError):
    """Somebody asked the run to end."""

    def __init__(self, signal_name: str) -> None:
        super().__init__(f"stopped by {signal_name}")
        self.signal = signal_name


class Stop:
    """`reason` is the name of the signal that came, "" before one does."""

    def __init__(self) -> None:
        self.reason = ""
        self._came = asyncio.Event()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """For the block, inside a running event loop; outside the main thread Python takes no signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._take, number, loop)
        try:
            yield
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)

    def _take(self, number: signal.Signals, loop: asyncio.AbstractEventLoop) -> None:
        self.reason = number.name
        self._came.set()
        for other in SIGNALS:
            loop.remove_signal_handler(other)  # the next one does what it does by default

    async def unless(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The work's result, None where a signal came first: the work is then cancelled and has ended."""
        task, came = asyncio.ensure_future(work), asyncio.ensure_future(self._came.wait())
        try:
            await asyncio.wait((task, came), return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() and not self.reason else None
        finally:
            for future in (task, came):
                future.cancel()
            await asyncio.gather(task, came, return_exceptions=True)
