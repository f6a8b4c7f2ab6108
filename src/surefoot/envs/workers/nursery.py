"""The process that starts, ends and buries workers, so that the run's own process has no children to look after.

    run ----control socket----> nursery ----fork----> worker 1, worker 2, ...
     `------------------a socket each------------------'

The run asks: FORK a worker for the socket that comes along, KILL a worker. The nursery tells that one has DIED.
It imports once what all workers need, which makes a worker a matter of milliseconds. When the control socket ends,
because the run closed it or was killed itself, the nursery ends everything below it and goes.

Whatever a dead worker leaves behind becomes the nursery's child, is no worker, and is killed.
"""

import os
import select
import signal
import socket
import sys
import time
from types import FrameType

from surefoot.envs import rewards
from surefoot.envs.workers import worker
from surefoot.envs.workers.call import DIED, FORK, MESSAGE
from surefoot.envs.workers.processes import adopt_orphans, children, die_with, kill_tree, offer_to_the_oom_killer

LAST_WAIT = 10.0  # seconds for processes to go once they are killed


def main(control_fd: int, parent: int, builtins: list[str]) -> None:
    """Serve until the run lets go. `builtins` are the rewards whose imports the workers will need."""
    die_with(parent, signal.SIGTERM)
    adopt_orphans()
    signal.signal(signal.SIGTERM, _leave)
    control = socket.socket(fileno=control_fd)
    control.set_inheritable(False)
    for name in builtins:
        _prepare(name)
    nursery = Nursery(control)
    try:
        nursery.serve()
    finally:
        nursery.end()
        os._exit(0)  # at once: the run waits, and taking libraries down in order takes seconds


def _prepare(name: str) -> None:
    try:
        if (prepare := rewards.find(name).prepare) is not None:
            prepare()
    except Exception as error:  # the worker that needs it will run into it too, and has a way to say so
        print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)


def _leave(number: int, where: FrameType | None) -> None:
    sys.exit(0)


class Nursery:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._pids: dict[int, int] = {}  # worker's number -> pid
        self._woken, self._waker = socket.socketpair()  # a child's end wakes `select`
        self._woken.setblocking(False)
        self._waker.setblocking(False)

    def serve(self) -> None:
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # without a handler of its own nothing would wake
        self._be_silent()
        while True:
            readable, _, _ = select.select([self._control, self._woken], [], [])
            if self._woken in readable:
                self._woken.recv(4096)
                self._bury()
            if self._control in readable:
                message, fds, _, _ = socket.recv_fds(self._control, MESSAGE.size, 1)
                if not message:
                    return
                kind, number, _ = MESSAGE.unpack(message)
                if kind == FORK:
                    self._fork(number, fds[0])
                elif number in self._pids:
                    kill_tree(self._pids[number])

    def end(self) -> None:
        """Nothing is left below this process, or `LAST_WAIT` is over."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        deadline = time.monotonic() + LAST_WAIT
        while time.monotonic() < deadline and (below := self._below()):
            for pid in below:
                kill_tree(pid)
            self._reap()
            time.sleep(0.002)

    @staticmethod
    def _be_silent() -> None:
        """Until here a fault is told on the run's stderr; what runs from here on is not to reach it."""
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.close(null)

    def _fork(self, number: int, fd: int) -> None:
        nursery = os.getpid()
        pid = os.fork()
        if pid:
            os.close(fd)
            self._pids[number] = pid
            return
        status = 1
        try:
            os.setsid()
            die_with(nursery, signal.SIGKILL)
            adopt_orphans()
            offer_to_the_oom_killer()
            signal.set_wakeup_fd(-1)
            for signalled in (signal.SIGTERM, signal.SIGCHLD):
                signal.signal(signalled, signal.SIG_DFL)
            for inherited in (self._control, self._woken, self._waker):
                inherited.close()
            requests = socket.socket(fileno=fd)
            requests.set_inheritable(False)
            worker.main(requests)
            status = 0
        finally:
            os._exit(status)  # never back into the nursery's loop

    def _bury(self) -> None:
        """Tell of workers that have ended, and end what they left behind."""
        for number, status in self._reap():
            self._control.sendall(MESSAGE.pack(DIED, number, status))
        for pid in self._below() - set(self._pids.values()):
            kill_tree(pid)

    def _below(self) -> set[int]:
        return {*children().get(os.getpid(), []), *self._pids.values()}

    def _reap(self) -> list[tuple[int, int]]:
        """(number, wait status) of workers that have ended; orphans are buried without a word."""
        ended: list[tuple[int, int]] = []
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return ended
            if pid == 0:
                return ended
            for number in [number for number, known in self._pids.items() if known == pid]:
                del self._pids[number]
                ended.append((number, status))
