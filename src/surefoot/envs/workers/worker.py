"""Inside a worker: calls in, marks out, one after the other; async functions many at once.

Nothing of a call's answer is believed by the run but a finite number and short texts (`call.Reply`).
"""

import asyncio
import inspect
import os
import pickle
import socket
import sys
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any

from surefoot.envs import rewards
from surefoot.envs.grade import Grader, Mark, plain
from surefoot.envs.hooks import find_function
from surefoot.envs.workers.call import CALL, HEAD, Call, Inbox, Reply, Target
from surefoot.envs.workers.output import Output, text_stream
from surefoot.types.errors import RewardError

MAX_REQUEST = 1 << 32
CHUNK = 1 << 16


def main(requests: socket.socket) -> None:
    """Serve until the socket ends."""
    Worker(requests).serve()


class Worker:
    def __init__(self, requests: socket.socket) -> None:
        self._socket = requests
        self._pid = os.getpid()
        self._inbox = Inbox(MAX_REQUEST)
        self._loop = asyncio.new_event_loop()  # kept: connections of an async function live in it
        self._tasks: set[asyncio.Task[None]] = set()
        self._found: dict[Target, tuple[Any, Any]] = {}
        self._ended = False
        self._printed = Output()
        self._printed_by_task: ContextVar[Output | None] = ContextVar("printed_by_task", default=None)
        sys.stdout = sys.stderr = text_stream(self._output)

    def serve(self) -> None:
        while not self._ended:
            self._read()
            if self._tasks:
                self._loop.run_until_complete(self._share())

    async def _share(self) -> None:
        """Until no call of an async function is running. The run sends no other calls meanwhile."""
        self._loop.add_reader(self._socket, self._read)
        try:
            while self._tasks and not self._ended:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._loop.remove_reader(self._socket)

    def _read(self) -> None:
        data = self._socket.recv(CHUNK)
        self._ended = not data
        for request in self._inbox.feed(data):
            kind, number = HEAD.unpack_from(request)
            body = request[HEAD.size :]
            if kind == CALL:
                self._take(number, body)
            else:
                self._load(number, body)

    def _load(self, number: int, body: bytes) -> None:
        """Import what the calls to come need: that takes its time, which is none of the first call's."""
        try:
            self._find(pickle.loads(body))
        except BaseException as error:
            self._send(number, error=plain(error) or type(error).__name__)
        else:
            self._send(number)

    def _take(self, number: int, body: bytes) -> None:
        try:
            call: Call = pickle.loads(body)
            grader = self._grader(call)
            if call.target.shared:
                self._begin(self._answer_async(number, grader, call))
                return
            value = grader.call(call.question)
            if inspect.isawaitable(value):
                value = self._loop.run_until_complete(grader.wait(value))
            mark = grader.mark(call.question, value)
        except BaseException as error:  # KeyboardInterrupt too: here it can only be the function's own
            self._fail(number, error)
        else:
            self._send(number, mark)

    def _begin(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer_async(self, number: int, grader: Grader, call: Call) -> None:
        self._printed_by_task.set(Output())
        try:
            mark = await grader.grade(call.question)
        except BaseException as error:
            self._fail(number, error)
        else:
            self._send(number, mark)

    def _fail(self, number: int, error: BaseException) -> None:
        ours = isinstance(error, RewardError)
        self._send(number, error=plain(error) if ours else f" raised {type(error).__name__}: {plain(error)}")

    def _send(self, number: int, mark: Mark | None = None, error: str = "") -> None:
        if os.getpid() != self._pid:
            os._exit(1)  # a child that a reward forked came back as if it were the worker
        self._socket.sendall(Reply(number, mark, error, self._output().take()).pack())

    def _output(self) -> Output:
        return self._printed_by_task.get() or self._printed

    def _grader(self, call: Call) -> Grader:
        return Grader("", *self._find(call.target), call.params, call.timeout)  # the run knows the name

    def _find(self, target: Target) -> tuple[Any, Any]:
        """Its function, and the one that tells what its extraction accepts."""
        if target not in self._found:
            self._found[target] = _import(target)
        return self._found[target]


def _import(target: Target) -> tuple[Any, Any]:
    if target.kind == "function":
        return find_function(target.name), None
    builtin = rewards.find(target.name)
    if builtin.prepare is not None:
        builtin.prepare()
    return builtin.score, builtin.answer
