"""Reward functions in a module of the current folder, and a way to see every process that a test left behind."""

import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from surefoot.envs.workers.pool import WorkerPool

REWARDS = r"""
import asyncio, os, signal, socket, subprocess, sys, threading, time
from pathlib import Path

def one(*_):
    return 1

def raises(*_):
    raise KeyError("answer")

def interrupts(*_):
    raise KeyboardInterrupt

def returns(prompt, response, label, metadata):
    return eval(response)

def pid(*_):
    return os.getpid()

def sleeps(prompt, response, label, metadata):
    time.sleep(float(response))
    return 1

def loops(*_):
    while True:
        pass

def leaves(*_):
    os._exit(3)

def segfaults(*_):
    os.kill(os.getpid(), signal.SIGSEGV)

CHILD = '''
import subprocess, sys
subprocess.Popen(["sleep", "1000"], start_new_session=True)
while True:
    print("x" * 1000)
'''

def spawns(prompt, response, label, metadata):
    "A child that prints for ever and has a child in a session of its own; then the end that `response` asks for."
    subprocess.Popen([sys.executable, "-c", CHILD])
    middle = subprocess.Popen(["sh", "-c", "setsid sleep 1000 & "], start_new_session=True)
    middle.wait()
    time.sleep(0.2)
    if response == "die":
        os._exit(1)
    while True:
        print("y" * 1000)

def forks(*_):
    "The child comes back into the worker's own code."
    if os.fork():
        time.sleep(0.2)
        return 1
    return 2

def prints(prompt, response, label, metadata):
    print(response * 100_000)
    sys.stderr.write("not reached")
    os.write(1, b"raw" * 1000)
    sys.stdout.buffer.write(b"bytes")
    return 1

def worker_socket():
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and os.path.exists(f"/proc/self/fd/{fd}") and os.readlink(f"/proc/self/fd/{fd}").startswith("socket"):
            candidate = socket.socket(fileno=os.dup(fd))
            try:
                candidate.getpeername()
            except OSError:
                continue
            if candidate.family == socket.AF_UNIX:
                yield candidate

def scribbles(prompt, response, label, metadata):
    "Writes bytes of its own where replies go."
    for each in worker_socket():
        each.setblocking(False)
        try:
            each.send(eval(response))
        except OSError:
            continue
    time.sleep(0.5)
    return 1

def closes_everything(*_):
    os.closerange(0, 100)
    time.sleep(60)

async def waits(prompt, response, label, metadata):
    await asyncio.sleep(float(response))
    return os.getpid()

async def blocks(prompt, response, label, metadata):
    await asyncio.sleep(0.1)
    if response == "block":
        time.sleep(1000)
    if response == "die":
        os._exit(5)
    await asyncio.sleep(0.3)
    return 1

async def prints_later(prompt, response, label, metadata):
    print("first", response)
    await asyncio.sleep(0.1)
    print("second", response)
    return 1

def returns_a_coroutine(*_):
    return waits("", "0", None, {})

def no_timeout_of_ours(*_):
    raise TimeoutError("the server's")

async def no_async_timeout_of_ours(*_):
    raise TimeoutError("the server's")
"""

FAULTY_MODULES = {
    "slow_import": "import time\ntime.sleep(1)\ndef one(*_):\n    return 1\n",
    "broken_import": "raise ImportError('no licence')\n",
    "deadly_import": "import os\nos._exit(7)\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "made_rewards.py").write_text(REWARDS)
    for name, text in FAULTY_MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def left_over(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The command lines of processes that this test's pools started, and that are not gone within 5 s."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv("MADE_BY_TEST", mark)
    return lambda: wait_for_none(mark)


def wait_for_none(mark: str) -> list[str]:
    deadline = time.monotonic() + 5
    while (found := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def marked(mark: str) -> list[str]:
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            environment = Path("/proc", entry, "environ").read_bytes()
            command = Path("/proc", entry, "cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in environment:
            found.append(f"{entry} {command[:60]!r}")
    return found


@pytest.fixture
def pool(folder: Path, left_over: Callable[[], list[str]]) -> Iterator[WorkerPool]:
    """Two workers; whatever the test did, nothing is left of them."""
    with WorkerPool(2) as pool:
        yield pool
    assert left_over() == []
