"""The thread that hands calls to workers, takes their replies, and ends what is late.

    any thread --submit--> waiting --_assign--> a worker --reply--> the call's future
                              ^                    |
                              `---once more, alone-'  one of several async calls took the worker down

One thread owns everything below; others only add to `_submitted`, under the lock, and wake it. It sleeps in `select`:
until a reply, the nursery's word that a worker has died, a new call, or the next deadline.

A worker has one call at a time; of async functions many. Where such a worker hangs or dies nobody knows whose fault it
was: each of its calls is tried once more, on its own.
"""

import pickle
import selectors
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from surefoot.envs.grade import Mark, late
from surefoot.envs.workers.call import CALL, LOAD, Call, Reply, Target
from surefoot.envs.workers.keeper import Keeper
from surefoot.envs.workers.link import Link
from surefoot.envs.workers.processes import ending
from surefoot.types.errors import HookError, RewardError, SurefootError

SHARE = 64  # calls of async functions that one worker runs at once
GRACE = 1.0  # seconds in which a worker ends an async call itself, before it is taken to be stuck
START_LIMIT = 120.0  # seconds for a worker to start and to import a function
END_LIMIT = 30.0  # seconds for a killed worker to be gone
MAX_TRIES = 3


@dataclass(eq=False, slots=True)
class Job:
    call: Call
    request: bytes
    future: Future[Mark] = field(default_factory=Future)
    number: int = 0  # in the order of submission
    alone: bool = False  # it was in a worker that others shared and that hung or died
    failed_starts: int = 0

    @property
    def shared(self) -> bool:
        return self.call.target.shared and not self.alone


@dataclass(frozen=True, eq=False, slots=True)
class Running:
    job: Job
    loading: bool  # the worker imports its function first
    deadline: float


@dataclass(eq=False, slots=True)
class Worker:
    number: int
    link: Link | None  # None: it is going
    running: dict[int, Running] = field(default_factory=dict)
    loaded: set[Target] = field(default_factory=set)
    gone_by: float = 0.0

    def takes(self, job: Job) -> bool:
        if self.link is None or len(self.running) >= SHARE:
            return False
        beside = self.running.values()
        return all(job.shared and other.job.shared and not other.loading for other in beside)

    def next_deadline(self) -> float:
        if self.running and self.link:
            return min(running.deadline for running in self.running.values())
        return self.gone_by if self.link is None else float("inf")


class Dispatcher:
    """Starts its thread. Only `submit` and `close` are for others; a pool has one at most."""

    def __init__(self, size: int, builtins: Sequence[str]) -> None:
        self._size = size
        self._builtins = builtins
        self._lock = threading.Lock()
        self._submitted: list[Job] = []
        self._ended = ""  # why no call is taken any more
        self._closing = False
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._keeper: Keeper | None = None
        self._failures = 0  # nurseries lost since the last reply
        self._workers: dict[int, Worker] = {}
        self._waiting: deque[Job] = deque()  # the oldest first: whoever overtakes could starve the others
        self._count = 0
        self._thread = threading.Thread(target=self._run, name="reward workers", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Raises `SurefootError` where no worker can be had any more."""
        with self._lock:
            if self._ended:
                raise SurefootError(self._ended)
            self._submitted.append(job)
        self._wake()

    def close(self, seconds: float) -> None:
        self._closing = True
        self._wake()
        self._thread.join(seconds)
        self._waker.close()
        self._woken.close()

    def _wake(self) -> None:
        try:
            self._waker.send(b"x")
        except BlockingIOError:
            return  # woken often enough

    def _run(self) -> None:
        reason = "the reward workers were closed"
        try:
            while not self._closing:
                self._sleep()
                self._expire()
                self._assign()
        except SurefootError as error:
            reason = str(error)
        except BaseException as error:  # a fault in here must not leave anyone waiting
            reason = f"the reward workers failed: {type(error).__name__}: {error}"
            raise
        finally:
            self._end(reason)

    def _end(self, reason: str) -> None:
        with self._lock:
            self._ended = reason
        self._accept()
        running = [each.job for worker in self._workers.values() for each in worker.running.values()]
        for job in [*running, *self._waiting]:
            if job.future.running() or job.future.set_running_or_notify_cancel():
                job.future.set_exception(SurefootError(reason))
        for worker in self._workers.values():
            self._unlink(worker)
        if self._keeper is not None:
            self._keeper.close(END_LIMIT)
        self._selector.close()

    def _sleep(self) -> None:
        deadline = min((worker.next_deadline() for worker in self._workers.values()), default=float("inf"))
        limit = None if deadline == float("inf") else max(0.0, deadline - time.monotonic())
        for key, events in self._selector.select(limit):
            if key.fileobj is self._woken:
                self._woken.recv(4096)
                self._accept()
            elif isinstance(key.data, Worker):
                self._attend(key.data, events)
            else:
                self._hear()

    def _accept(self) -> None:
        with self._lock:
            jobs, self._submitted = self._submitted, []
        for job in jobs:
            self._count += 1
            job.number = self._count
            self._waiting.append(job)

    def _attend(self, worker: Worker, events: int) -> None:
        if worker.link is None:  # an earlier event of the same round ended it
            return
        if events & selectors.EVENT_WRITE:
            worker.link.flush()
        self._receive(worker)
        if worker.link is not None:
            self._selector.modify(worker.link.socket, worker.link.events, worker)

    def _receive(self, worker: Worker) -> None:
        link = worker.link
        if link is None:
            return
        for reply in link.receive():
            running = worker.running.pop(reply.number, None)
            if running is None:
                link.ended = True  # it answers what nobody asked
            else:
                self._settle(worker, running, reply)
        if link.ended:
            self._retire(worker)  # what it was at ends with the word of its death

    def _settle(self, worker: Worker, running: Running, reply: Reply) -> None:
        self._failures = 0
        job, target = running.job, running.job.call.target
        show(job.call.part, reply.printed)
        if running.loading:
            if reply.error:
                job.future.set_exception(HookError(f"in a reward worker: {reply.error}"))
            else:
                worker.loaded.add(target)
                self._give(worker, job)
        elif reply.mark is not None:
            job.future.set_result(reply.mark)
        else:
            job.future.set_exception(RewardError(f"{job.call.part}{reply.error}"))

    def _hear(self) -> None:
        """What the nursery tells."""
        if self._keeper is None:
            return
        died = self._keeper.receive()
        if died is None:
            self._bury_all()
            return
        number, status = died
        worker = self._workers.pop(number)
        self._receive(worker)  # it may have answered before
        self._unlink(worker)
        self._give_up(worker, f"its worker died ({ending(status)})")

    def _bury_all(self) -> None:
        """The nursery is gone and with it every worker; another one is started, though not for ever."""
        if self._keeper is not None:
            self._selector.unregister(self._keeper.socket)
            self._keeper.close(END_LIMIT)
            self._keeper = None
        self._failures += 1
        if self._failures >= MAX_TRIES:
            raise SurefootError(f"reward workers cannot be started: {MAX_TRIES} attempts failed")
        workers, self._workers = self._workers, {}
        for worker in workers.values():
            self._unlink(worker)
            self._give_up(worker, "its worker died")

    def _expire(self) -> None:
        now = time.monotonic()
        for worker in list(self._workers.values()):
            if worker.next_deadline() > now:
                continue
            if worker.link is None:
                self._bury_all()  # a process that cannot be killed, or a nursery that does not answer
                return
            self._retire(worker)
            self._give_up(worker, "")

    def _give_up(self, worker: Worker, death: str) -> None:
        """Fail, or try again, what a worker was at that has died, or hung where `death` is empty."""
        running, worker.running = list(worker.running.values()), {}
        for each in sorted(running, key=lambda each: each.job.number, reverse=True):
            job = each.job
            again = len(running) > 1
            if each.loading:
                job.failed_starts += 1
                again = bool(death) and job.failed_starts < MAX_TRIES
            if again:
                job.alone = job.alone or not each.loading
                self._waiting.appendleft(job)
            elif each.loading:
                what = f"it died {MAX_TRIES} times" if death else f"not done within {START_LIMIT:g} s"
                job.future.set_exception(
                    HookError(f"{job.call.target.name}: a reward worker could not import it: {what}")
                )
            else:
                part = job.call.part
                job.future.set_exception(RewardError(f"{part}: {death}" if death else late(part, job.call.timeout)))

    def _retire(self, worker: Worker) -> None:
        self._unlink(worker)
        worker.gone_by = time.monotonic() + END_LIMIT
        if self._keeper is not None:
            self._keeper.kill(worker.number)

    def _unlink(self, worker: Worker) -> None:
        if worker.link is not None:
            self._selector.unregister(worker.link.socket)
            worker.link.socket.close()
            worker.link = None

    def _assign(self) -> None:
        while self._waiting and (worker := self._worker_for(self._waiting[0])):
            job = self._waiting.popleft()
            if job.future.running() or job.future.set_running_or_notify_cancel():
                self._give(worker, job)

    def _worker_for(self, job: Job) -> Worker | None:
        able = [worker for worker in self._workers.values() if worker.takes(job)]
        if able:  # a worker in use first: it can only be shared; then one that has the function
            return max(able, key=lambda worker: (bool(worker.running), job.call.target in worker.loaded))
        return self._fork() if len(self._workers) < self._size else None

    def _fork(self) -> Worker:
        if self._keeper is None:
            self._keeper = self._start()
            self._selector.register(self._keeper.socket, selectors.EVENT_READ)
        self._count += 1
        link = Link(self._keeper.fork(self._count))
        worker = Worker(self._count, link)
        self._workers[worker.number] = worker
        self._selector.register(link.socket, link.events, worker)
        return worker

    def _start(self) -> Keeper:
        try:
            return Keeper(self._builtins)
        except OSError as error:
            raise SurefootError(f"reward workers cannot be started: {error}") from error

    def _give(self, worker: Worker, job: Job) -> None:
        link, target = worker.link, job.call.target
        if link is None:
            raise AssertionError("calls go to workers that live")
        loading = target not in worker.loaded
        if loading:
            limit = START_LIMIT
            link.send(LOAD, job.number, pickle.dumps(target))
        else:
            limit = job.call.timeout + (GRACE if target.shared else 0.0)
            link.send(CALL, job.number, job.request)
        worker.running[job.number] = Running(job, loading, time.monotonic() + limit)
        self._selector.modify(link.socket, link.events, worker)


def show(part: str, printed: str) -> None:
    """On stderr, without what steers a terminal."""
    for line in printed.splitlines():
        print(f"[{part}] {''.join(c if c.isprintable() else ' ' for c in line)}", file=sys.stderr)
