"""What is promised of `WorkerPool`, with real processes."""

import asyncio
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from surefoot.envs.grade import Mark, Question
from surefoot.envs.workers import dispatch
from surefoot.envs.workers.call import Call, Target
from surefoot.envs.workers.pool import WorkerPool
from surefoot.types.errors import HookError, RewardError, SurefootError


def ask(function: str, response: str = "", *, timeout: float = 20.0, shared: bool = False, **metadata: Any) -> Call:
    path = function if "." in function else f"made_rewards.{function}"
    return Call("part", Target("function", path, shared), {}, timeout, Question("q", response, "4", metadata))


def value(pool: WorkerPool, *arguments: Any, **options: Any) -> float:
    return pool.submit(ask(*arguments, **options)).result(30).value


def seconds(work: Callable[[], object]) -> float:
    start = time.monotonic()
    work()
    return time.monotonic() - start


def test_a_call_is_answered(pool: WorkerPool) -> None:
    assert pool.submit(ask("one")).result(30) == Mark(1.0, None)
    assert value(pool, "returns", "label == '4' and metadata == {'k': 1}", k=1) == 1.0
    assert value(pool, "returns", "0.1 + 0.2") == 0.1 + 0.2  # to the last bit


@pytest.mark.parametrize(
    ("function", "response", "reason"),
    [
        ("raises", "", "part raised KeyError: 'answer'"),
        ("interrupts", "", "part raised KeyboardInterrupt: "),
        ("no_timeout_of_ours", "", "part raised TimeoutError: the server's"),
        ("returns", "None", "part returned None of type NoneType, not a number"),
        ("returns", "'1.0'", "part returned '1.0' of type str, not a number"),
        ("returns", "[1.0, 2.0]", "part returned [1.0, 2.0] of type list, not a number"),
        ("returns", "(1.0,)", "part returned (1.0,) of type tuple, not a number"),
        ("returns", "float('nan')", "part returned nan"),
        ("returns", "float('inf')", "part returned inf"),
        ("returns", "10**400", "part returned 1000"),
        ("leaves", "", "part: its worker died (exit status 3)"),
        ("segfaults", "", "part: its worker died (signal 11)"),
        ("closes_everything", "", "part: its worker died (signal 9)"),
    ],
)
def test_a_fault_costs_its_own_sample(pool: WorkerPool, function: str, response: str, reason: str) -> None:
    bad, good = pool.submit(ask(function, response)), pool.submit(ask("one"))
    assert str(bad.exception(30)).startswith(reason)
    assert isinstance(bad.exception(), RewardError)
    assert good.result(30).value == 1.0
    assert value(pool, "one") == 1.0


def test_a_loop_ends_at_its_limit(pool: WorkerPool) -> None:
    value(pool, "one")  # it has started
    loops = pool.submit(ask("loops", timeout=0.3))
    took = seconds(lambda: loops.exception(30))
    assert str(loops.exception()) == "part gave no reward within 0.3 s"
    assert 0.25 < took < 1.5


def test_time_in_the_queue_does_not_count(pool: WorkerPool) -> None:
    """Six calls of 0.4 s on two workers: the last ones wait 0.8 s, beyond the limit."""
    value(pool, "one")
    calls = [pool.submit(ask("sleeps", "0.4", timeout=0.75)) for _ in range(6)]
    assert [call.result(30).value for call in calls] == [1.0] * 6


def test_time_to_import_does_not_count(pool: WorkerPool) -> None:
    assert value(pool, "slow_import.one", timeout=0.5) == 1.0


def test_calls_run_at_once(pool: WorkerPool) -> None:
    warm = [pool.submit(ask("sleeps", "0.1")) for _ in range(2)]
    assert [call.result(30).value for call in warm] == [1.0, 1.0]
    calls = [pool.submit(ask("sleeps", "1")) for _ in range(2)]
    assert seconds(lambda: [call.result(30) for call in calls]) < 1.8


@pytest.mark.parametrize("end", ["hang", "die"])
def test_no_process_outlives_its_call(folder: Path, left_over: Callable[[], list[str]], end: str) -> None:
    """Children that print for ever, grandchildren in other sessions, orphans; also where the worker dies itself."""
    with WorkerPool(1) as pool:
        value(pool, "one")
        assert len(process_names()) == 0
        failed = pool.submit(ask("spawns", end, timeout=1.0))
        assert isinstance(failed.exception(30), RewardError)
        deadline = time.monotonic() + 5
        while process_names() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert process_names() == []  # while the pool goes on
        assert value(pool, "one") == 1.0
    assert left_over() == []


def process_names() -> list[str]:
    """Of what `spawns` starts, told by this test's mark in the environment."""
    mark = f"MADE_BY_TEST={os.environ['MADE_BY_TEST']}".encode()
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = Path("/proc", entry, "environ").read_bytes()
            command = Path("/proc", entry, "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if mark in environment.split(b"\0") and (command[0] == b"sleep" or b"x" in command[-2][-30:]):
            found.append(repr(command))
    return found


def test_a_forked_child_is_not_taken_for_the_worker(pool: WorkerPool) -> None:
    assert [value(pool, "forks") for _ in range(2)] == [1.0, 1.0]
    assert value(pool, "one") == 1.0


def test_output_is_bounded_and_shown(pool: WorkerPool, capfd: pytest.CaptureFixture[str]) -> None:
    assert value(pool, "prints", "\x1b[31m-") == 1.0
    out, err = capfd.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("[part]  [31m- [31m-")  # nothing that steers the terminal
    assert line.endswith("(cut at 2048 bytes)")
    assert 2048 < len(line) < 2100


@pytest.mark.parametrize(
    "bytes_sent",
    [
        "b'junk that is no frame'",
        "b'\\x02\\x00\\x00\\x00{}'",
        "b'\\xff\\xff\\xff\\xff'",
        "__import__('struct').pack('<I', 22) + b'[12345, null, \"\", \"x\"]'",  # a call that is not there
        "__import__('struct').pack('<I', 50000) + b'[' * 50000",
    ],
)
def test_what_is_no_reply_ends_the_worker(pool: WorkerPool, bytes_sent: str) -> None:
    with pytest.raises(RewardError, match=r"^part: its worker died \(signal 9\)$"):
        value(pool, "scribbles", bytes_sent)
    assert value(pool, "one") == 1.0


def test_async_calls_share_a_worker(pool: WorkerPool) -> None:
    value(pool, "waits", "0", shared=True)
    calls = [pool.submit(ask("waits", "0.5", shared=True)) for _ in range(60)]
    start = time.monotonic()
    assert len({call.result(30).value for call in calls}) == 1
    assert time.monotonic() - start < 3


def test_async_calls_do_not_starve_the_others(folder: Path) -> None:
    """One worker, which is never without an async call: the plain one gets its turn."""
    with WorkerPool(1) as pool:
        value(pool, "waits", "0", shared=True)
        calls = [pool.submit(ask("waits", "0.3", shared=True)) for _ in range(2)]
        plain = pool.submit(ask("one"))
        for _ in range(20):
            time.sleep(0.1)
            calls.append(pool.submit(ask("waits", "0.3", shared=True)))
        assert plain.done()
        assert len({call.result(30).value for call in calls}) == 1


def test_a_late_async_call_is_cancelled_and_its_worker_lives(pool: WorkerPool) -> None:
    before = value(pool, "waits", "0", shared=True)
    late, good = (pool.submit(ask("waits", wait, timeout=0.3, shared=True)) for wait in ("60", "0.1"))
    assert str(late.exception(30)) == "part gave no reward within 0.3 s"
    assert good.result(30).value == before
    assert value(pool, "waits", "0", shared=True) == before


@pytest.mark.parametrize(
    ("end", "reason"), [("block", "part gave no reward within 1 s"), ("die", r"part: its worker died (exit status 5)")]
)
def test_an_async_call_that_takes_its_worker_down_costs_only_itself(pool: WorkerPool, end: str, reason: str) -> None:
    value(pool, "blocks", "go on", shared=True)
    calls = [pool.submit(ask("blocks", does, timeout=1.0, shared=True)) for does in ("go on", "go on", end, "go on")]
    assert [call.exception(30) and str(call.exception()) for call in calls] == [None, None, reason, None]


def test_a_coroutine_from_a_plain_function_is_awaited(pool: WorkerPool) -> None:
    assert value(pool, "returns_a_coroutine") > 1


def test_async_calls_print_apart(pool: WorkerPool, capfd: pytest.CaptureFixture[str]) -> None:
    calls = [pool.submit(ask("prints_later", name, shared=True)) for name in "ab"]
    assert [call.result(30).value for call in calls] == [1.0, 1.0]
    err = capfd.readouterr().err
    assert all(f"[part] first {name}\n[part] second {name}\n" in err for name in "ab")


def test_an_async_function_s_own_timeout_is_no_limit_of_ours(pool: WorkerPool) -> None:
    with pytest.raises(RewardError, match=r"^part raised TimeoutError: the server's$"):
        value(pool, "no_async_timeout_of_ours", shared=True)


def test_a_function_that_workers_cannot_import_ends_the_run(pool: WorkerPool) -> None:
    with pytest.raises(HookError, match=r"broken_import\.f: .*no licence"):
        value(pool, "broken_import.f")
    with pytest.raises(HookError, match=r"deadly_import\.f: .* it died 3 times"):
        value(pool, "deadly_import.f")


@pytest.mark.parametrize("executable", ["/bin/false", "/nowhere/python"])
def test_workers_that_cannot_start_are_given_up(folder: Path, monkeypatch: pytest.MonkeyPatch, executable: str) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    with WorkerPool(2) as pool:
        calls = [pool.submit(ask("one")) for _ in range(5)]
        for call in calls:
            with pytest.raises(SurefootError, match=r"^reward workers cannot be started: "):
                call.result(30)
        with pytest.raises(SurefootError, match=r"^reward workers cannot be started: "):
            pool.submit(ask("one"))


def test_an_import_has_a_limit(pool: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    value(pool, "one")
    monkeypatch.setattr(dispatch, "START_LIMIT", 0.3)
    with pytest.raises(HookError, match=r"slow_import\.one: .* not done within 0\.3 s"):
        value(pool, "slow_import.one")


def test_a_nursery_that_does_not_answer_is_replaced(
    folder: Path, left_over: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "END_LIMIT", 2.0)
    with WorkerPool(1) as pool:
        value(pool, "one")
        os.kill(child_of_this_process(), signal.SIGSTOP)
        assert str(pool.submit(ask("loops", timeout=0.1)).exception(30)) == "part gave no reward within 0.1 s"
        assert value(pool, "one") == 1.0
    assert left_over() == []


def test_from_threads_and_event_loops(pool: WorkerPool) -> None:
    def in_a_loop(_: int) -> list[float]:
        async def several() -> list[float]:
            return [mark.value for mark in await asyncio.gather(*(pool.mark(ask("one")) for _ in range(5)))]

        return asyncio.run(several())

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(in_a_loop, range(8))) == [[1.0] * 5] * 8


def test_a_cancelled_call_frees_its_place(pool: WorkerPool) -> None:
    value(pool, "one")

    async def cancel() -> None:
        running = [asyncio.create_task(pool.mark(ask("sleeps", "0.5"))) for _ in range(4)]  # two of them wait
        await asyncio.sleep(0.1)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    asyncio.run(cancel())
    assert seconds(lambda: value(pool, "one")) < 0.9  # the waiting ones were never begun


def test_close_ends_all_calls_and_processes(folder: Path, left_over: Callable[[], list[str]]) -> None:
    pool = WorkerPool(1)
    running, waiting = pool.submit(ask("spawns", timeout=600)), pool.submit(ask("one"))
    time.sleep(1)
    pool.close()
    for call in (running, waiting):
        with pytest.raises(SurefootError, match="the reward workers were closed"):
            call.result(30)
    assert left_over() == []
    pool.close()
    with pytest.raises(SurefootError, match="are closed"):
        pool.submit(ask("one"))


def test_nothing_starts_before_the_first_call(left_over: Callable[[], list[str]]) -> None:
    with WorkerPool(2):
        assert left_over() == []
        assert not [thread for thread in threading.enumerate() if thread.name == "reward workers"]


PARENT = """
import sys, time
sys.path.insert(0, {here!r})
from test_pool import ask
from surefoot.envs import WorkerPool
pool = WorkerPool(1)
pool.submit(ask("one")).result(30)
pool.submit(ask("spawns", timeout=600))
time.sleep(0.8)
print("ready", flush=True)
{end}
"""


@pytest.mark.parametrize("end", ["time.sleep(600)", "sys.exit(0)", "import os; os._exit(1)", "raise ValueError"])
def test_workers_end_with_their_parent(folder: Path, left_over: Callable[[], list[str]], end: str) -> None:
    """Killed, or gone without a word."""
    code = PARENT.format(here=str(Path(__file__).parent), end=end)
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"ready\n"
    if "sleep" in end:
        os.kill(parent.pid, signal.SIGKILL)
    parent.wait(30)
    parent.stdout.close()
    assert left_over() == []


def test_a_killed_nursery_is_replaced(pool: WorkerPool) -> None:
    value(pool, "one")
    running = pool.submit(ask("sleeps", "600", timeout=600))
    time.sleep(0.2)
    os.kill(child_of_this_process(), signal.SIGKILL)
    assert str(running.exception(30)) == "part: its worker died"
    assert value(pool, "one") == 1.0


def child_of_this_process() -> int:
    (pid,) = Path(f"/proc/self/task/{reward_thread()}/children").read_text().split()
    return int(pid)


def reward_thread() -> int:
    (thread,) = (thread for thread in threading.enumerate() if thread.name == "reward workers")
    assert thread.native_id is not None
    return thread.native_id


def test_nothing_leaks_over_many_limits(pool: WorkerPool) -> None:
    value(pool, "one")
    nursery = child_of_this_process()
    before = [len(os.listdir(f"/proc/{pid}/fd")) for pid in ("self", nursery)]
    for _ in range(50):
        assert isinstance(pool.submit(ask("loops", timeout=0.02)).exception(30), RewardError)
    value(pool, "one")
    after = [len(os.listdir(f"/proc/{pid}/fd")) for pid in ("self", nursery)]
    assert all(now <= then + 2 for now, then in zip(after, before, strict=True))
    children = Path(f"/proc/{nursery}/task/{nursery}/children").read_text().split()
    assert len(children) <= 2  # no zombies


def test_sampling_goes_on_beside_slow_rewards(pool: WorkerPool) -> None:
    """What rewards of 2 s take from a loop that yields all the time: CPU time of other threads, and gaps.

    Wall-clock rates of such a loop differ by 30% from one moment to the next on a busy machine; these two do not. A
    reward in the loop's own thread would be a gap between two ticks; the thread that waits for workers, CPU time.
    """

    async def window() -> tuple[float, float]:
        tasks = [asyncio.create_task(pool.mark(ask("sleeps", "2"))) for _ in range(2)]
        start, own = time.process_time(), time.thread_time()
        last, gap = time.monotonic(), 0.0
        while not any(task.done() for task in tasks):
            await asyncio.sleep(0)
            now = time.monotonic()
            gap, last = max(gap, now - last), now
        own, everyone = time.thread_time() - own, time.process_time() - start
        await asyncio.gather(*tasks)
        return 1 - own / everyone, gap

    async def windows() -> list[tuple[float, float]]:
        await asyncio.gather(*(pool.mark(ask("sleeps", "0.2")) for _ in range(2)))
        return [await window() for _ in range(3)]

    lost, gaps = zip(*asyncio.run(windows()), strict=True)
    assert statistics.median(lost) < 0.05
    assert statistics.median(gaps) < 1.0
