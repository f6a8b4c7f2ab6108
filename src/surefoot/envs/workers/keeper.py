"""The run's end of the nursery: starting it, and asking it for workers and for their end."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence

from surefoot.envs.workers.call import FORK, KILL, MESSAGE

# The run's own import path comes along, so that a worker finds what the run found, and finds the same.
BOOT = """import json, sys
path, control, parent, builtins = sys.argv[1:]
sys.path[:], sys.argv[1:] = json.loads(path), []
from surefoot.envs.workers.nursery import main
main(int(control), int(parent), json.loads(builtins))"""


class Keeper:
    """One nursery. Raises `OSError` where the process cannot be started."""

    def __init__(self, builtins: Sequence[str]) -> None:
        self.socket, theirs = socket.socketpair()
        path, names = json.dumps([str(entry) for entry in sys.path]), json.dumps(list(builtins))
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", BOOT, path, str(theirs.fileno()), str(os.getpid()), names],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is the run's to handle
                env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} | os.environ,  # a worker has a core
            )

    def fork(self, number: int) -> socket.socket:
        """The socket of a new worker."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._ask(FORK, number, theirs)
        return ours

    def kill(self, number: int) -> None:
        self._ask(KILL, number)

    def _ask(self, kind: bytes, number: int, *sockets: socket.socket) -> None:
        try:
            socket.send_fds(self.socket, [MESSAGE.pack(kind, number, 0)], [each.fileno() for each in sockets])
        except (BrokenPipeError, ConnectionResetError):
            return  # the nursery is gone: `receive` finds out, and nobody is lost for it

    def receive(self) -> tuple[int, int] | None:
        """(number, wait status) of a worker that has died; None where the nursery has."""
        try:
            message = self.socket.recv(MESSAGE.size, socket.MSG_WAITALL)
        except ConnectionResetError:
            return None
        if len(message) < MESSAGE.size:
            return None
        _, number, status = MESSAGE.unpack(message)
        return number, status

    def close(self, seconds: float) -> None:
        """The nursery, told by the end of its socket, ends everything below it."""
        self.socket.close()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
