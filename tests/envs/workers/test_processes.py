import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from surefoot.envs.workers.processes import children, descendants, ending, kill_tree, send

CHAIN = """
import os, subprocess, sys, time
deeper = int(sys.argv[1])
if deeper:
    subprocess.Popen([sys.executable, "-c", sys.argv[2], str(deeper - 1), sys.argv[2]], start_new_session=True)
open("/proc/self/comm", "w").write("a) b (c")  # what a careless reader of /proc trips over
time.sleep(1000)
"""


def chain(depth: int) -> subprocess.Popen[bytes]:
    """A process with `depth` more below it, one below the other, each in its own session."""
    root = subprocess.Popen([sys.executable, "-c", CHAIN, str(depth), CHAIN])
    deadline = time.monotonic() + 20
    while len(descendants(root.pid)) < depth and time.monotonic() < deadline:
        time.sleep(0.01)
    return root


def test_descendants_are_found_through_sessions_and_odd_names() -> None:
    root = chain(2)
    try:
        below = descendants(root.pid)
        assert len(below) == 2
        assert root.pid in children()[os.getpid()]
        assert root.pid not in below
    finally:
        kill_tree(root.pid)
        root.wait(20)


def test_a_whole_tree_is_killed(left_over: Callable[[], list[str]]) -> None:
    root = chain(2)
    assert len(descendants(root.pid)) == 2
    kill_tree(root.pid)
    assert root.wait(20) == -signal.SIGKILL
    assert left_over() == []


def test_a_process_that_is_gone() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait(20)
    assert send(gone.pid, signal.SIGKILL) is False
    kill_tree(gone.pid)


def test_endings_in_words() -> None:
    gone = os.posix_spawn("/bin/sh", ["sh", "-c", "kill -11 $$"], {})
    assert ending(os.waitpid(gone, 0)[1]) == "signal 11"
    gone = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 3"], {})
    assert ending(os.waitpid(gone, 0)[1]) == "exit status 3"
