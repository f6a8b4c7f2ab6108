"""The pool of worker processes as its users see it: from any thread, from any event loop."""

import asyncio
import os
import pickle
import threading
from concurrent.futures import Future
from types import TracebackType

from surefoot.envs.grade import Mark, plain
from surefoot.envs.workers.call import Call, Target
from surefoot.envs.workers.dispatch import Dispatcher, Job
from surefoot.types.errors import RewardError, SurefootError

LAST_WAIT = 30.0  # seconds for processes and thread to end


class WorkerPool:
    """At most `size` processes that answer calls; 0 is one a core, at least 4. None is started before the first call.

    Every call ends: with a `Mark`, with a `RewardError` that is its sample's alone (a function that raises, hangs,
    returns no number, or takes its process down), or with another `SurefootError` where no worker can be had, be it
    because none starts, because a function cannot be imported there, or because the pool was closed.

    The processes end with `close` and with this process, however it ends.
    """

    def __init__(self, size: int = 0) -> None:
        self._size = size or max(4, os.cpu_count() or 1)
        self._lock = threading.Lock()
        self._dispatcher: Dispatcher | None = None
        self._closed = False
        self._builtins: set[str] = set()

    def expect(self, target: Target) -> None:
        """Built-ins that are named before the first call are imported once for all workers."""
        if target.kind == "builtin":
            self._builtins.add(target.name)

    def submit(self, call: Call) -> Future[Mark]:
        """Raises `RewardError` for a question that cannot be sent, `SurefootError` where the pool is closed."""
        try:
            request = pickle.dumps(call, pickle.HIGHEST_PROTOCOL)
        except Exception as error:  # whatever an object of the user's does when it is pickled
            raise RewardError(f"{call.part}: label, metadata or options cannot be sent: {plain(error)}") from error
        job = Job(call, request)
        with self._lock:
            if self._closed:
                raise SurefootError("the reward workers are closed")
            if self._dispatcher is None:
                self._dispatcher = Dispatcher(self._size, sorted(self._builtins))
            self._dispatcher.submit(job)
        return job.future

    async def mark(self, call: Call) -> Mark:
        """A cancelled wait gives up the answer; the call itself goes on to its end or its limit."""
        return await asyncio.wrap_future(self.submit(call))

    def close(self) -> None:
        """End all processes; calls still running fail. Again is harmless."""
        with self._lock:
            self._closed = True
            dispatcher, self._dispatcher = self._dispatcher, None
        if dispatcher is not None:
            dispatcher.close(LAST_WAIT)

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
