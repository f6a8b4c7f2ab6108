"""The run's end of the socket to a worker."""

import selectors
import socket

from surefoot.envs.workers.call import HEAD, MAX_REPLY, Inbox, Reply, frame

CHUNK = 1 << 16


class Link:
    """Never blocks: what the worker is not ready to take waits here. `ended`: nothing more will come."""

    def __init__(self, worker: socket.socket) -> None:
        worker.setblocking(False)
        self.socket = worker
        self.ended = False
        self._inbox = Inbox(MAX_REPLY)
        self._unsent = bytearray()

    @property
    def events(self) -> int:
        """What to wait for."""
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)

    def send(self, kind: bytes, number: int, body: bytes) -> None:
        self._unsent += frame(HEAD.pack(kind, number), body)
        self.flush()

    def flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self.socket.send(self._unsent[:CHUNK])]
        except BlockingIOError:
            return
        except OSError:  # the worker is gone; `receive` finds out
            self._unsent.clear()

    def receive(self) -> list[Reply]:
        """Every reply that is here. A worker that sends anything else is at its end."""
        replies = []
        try:
            while not self.ended:
                data = self.socket.recv(CHUNK)
                replies += [Reply.unpack(body) for body in self._inbox.feed(data)]
                self.ended = not data
        except BlockingIOError:
            return replies
        except (OSError, ValueError):  # the worker's code, or what it ran, has broken the socket: the worker must go
            self.ended = True
        return replies
