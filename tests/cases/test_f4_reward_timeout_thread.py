"""f4-reward-timeout-thread, https://github.com/verl-project/verl/pull/5635

A limit made of signals works in the main thread only, and an async one does not stop a busy loop. Its kind: whatever
thread or event loop asks, a reward that hangs ends at its limit with a reason of its own, takes nobody with it and
leaves nothing behind.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from surefoot.config.schema import RewardConfig
from surefoot.envs import Rubric, WorkerPool
from surefoot.types.errors import RewardError
from surefoot.types.rollout import Message, Prompt

GRADER = r'''
import re
import subprocess
import sys

CHILD = """
import subprocess
subprocess.Popen(["sleep", "1000"])
while True:
    print("x" * 1000)
"""

def score(prompt, response, label, metadata):
    """The boxed answer is compared; anything else is run as code."""
    boxed = re.search(r"\\boxed\{(.*)\}", response)
    if boxed:
        return boxed.group(1) == label
    if response.startswith("spawn"):
        response = "subprocess.run([sys.executable, '-c', CHILD], stdout=subprocess.PIPE)"
    exec(response, globals())
    return 0
'''
SAMPLES = [
    r"\boxed{2}",
    "while True: pass",
    r"\boxed{2}",
    "spawn child that sleeps 1000 s and prints without end",
]
LATE = "grader gave no reward within 1 s"
EXPECTED = [1.0, LATE, 1.0, LATE]
PROMPT = Prompt("p", "", (Message("user", "1+1?"),), {"label": "2", "metadata": {}})


async def batch(rubric: Rubric) -> list[float | str]:
    async def one(response: str) -> float | str:
        try:
            return (await rubric.score(PROMPT, response)).reward
        except RewardError as error:
            return str(error)

    return list(await asyncio.gather(*map(one, SAMPLES)))


@pytest.fixture
def rubric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rubric]:
    (tmp_path / "f4_grader.py").write_text(GRADER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("F4_MARK", str(tmp_path))
    with WorkerPool(4) as pool:
        config = RewardConfig(function="f4_grader.score", part="grader", timeout=1.0)
        yield Rubric.from_config([config], timeout=60.0, pool=pool)
    assert left_over(tmp_path) == []


def left_over(mark: Path) -> list[str]:
    """Processes with this test's mark in their environment."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = Path("/proc", entry, "environ").read_bytes()
        except OSError:
            continue
        if int(entry) != os.getpid() and f"F4_MARK={mark}".encode() in environment:
            found.append(entry)
    return found


def in_main_thread(rubric: Rubric) -> list[float | str]:
    return asyncio.run(batch(rubric))


def in_thread(rubric: Rubric) -> list[float | str]:
    found: list[float | str] = []
    thread = threading.Thread(target=lambda: found.extend(asyncio.run(batch(rubric))))
    thread.start()
    thread.join(30)
    return found


def in_thread_pool(rubric: Rubric) -> list[float | str]:
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(lambda: asyncio.run(batch(rubric))).result(30)


def in_task(rubric: Rubric) -> list[float | str]:
    async def run() -> list[float | str]:
        return await asyncio.create_task(batch(rubric))

    return asyncio.run(run())


@pytest.mark.parametrize("where", [in_main_thread, in_thread, in_thread_pool, in_task])
def test_from_everywhere(rubric: Rubric, where: Callable[[Rubric], list[float | str]]) -> None:
    start = time.monotonic()
    assert where(rubric) == EXPECTED
    assert time.monotonic() - start < 5


def test_ten_batches_take_ten_times_as_long(rubric: Rubric, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """At 1 s a batch; nothing piles up meanwhile, neither processes nor output."""
    assert in_main_thread(rubric) == EXPECTED
    start = time.monotonic()
    for _ in range(10):
        assert in_main_thread(rubric) == EXPECTED
    assert time.monotonic() - start < 20
    time.sleep(0.2)
    assert len(left_over(tmp_path)) <= 1 + 4  # the workers and the one who keeps them
    out, err = capfd.readouterr()
    assert len(out + err) < 10_000
