"""Processes and what they have started: found and ended, also in other sessions and also where a parent is gone.

On Linux a worker adopts the orphans below it, so that its descendants are always found by their parents in /proc.
Elsewhere a worker's session is all that is known of them.
"""

import ctypes
import os
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
PROC = Path("/proc")


def adopt_orphans() -> None:
    """Descendants of this process whose parent ends become its children."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with(parent: int, number: signal.Signals) -> None:
    """Have `number` sent to this process when its parent ends. Exits where that parent is gone already."""
    _prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        sys.exit(0)


def offer_to_the_oom_killer() -> None:
    """Where memory runs out this process goes before the run does; a sandbox may forbid it, and nothing is lost."""
    score = PROC / "self/oom_score_adj"
    if os.access(score, os.W_OK):
        score.write_text("1000")


def _prctl(option: int, argument: int) -> None:
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, argument, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {argument})")


def children() -> dict[int, list[int]]:
    """Parent -> its children, zombies among them; empty where there is no /proc."""
    found: dict[int, list[int]] = {}
    for entry in os.listdir(PROC) if PROC.is_dir() else []:
        if entry.isdigit():
            parent = _parent(entry)
            found.setdefault(parent, []).append(int(entry))
    return found


def _parent(pid: str) -> int:
    """0 for a process that has ended meanwhile."""
    try:
        stat = (PROC / pid / "stat").read_bytes()
    except OSError:
        return 0
    return int(stat.rpartition(b")")[2].split()[1])  # its name, in brackets, may hold anything


def descendants(root: int) -> set[int]:
    """Everything below `root`."""
    tree, found, new = children(), set[int](), [root]
    while new:
        new = [child for pid in new for child in tree.get(pid, []) if child not in found]
        found.update(new)
    return found


def kill_tree(root: int) -> None:
    """SIGKILL for `root` and all below it. Each is stopped before its children are looked for: it cannot fork then."""
    send(root, signal.SIGSTOP)
    stopped: set[int] = set()
    while new := descendants(root) - stopped:
        for pid in new:
            send(pid, signal.SIGSTOP)
        stopped |= new
    for pid in stopped:
        send(pid, signal.SIGKILL)
    if not PROC.is_dir():
        send(-root, signal.SIGKILL)  # a worker leads a process group
    send(root, signal.SIGKILL)


def send(pid: int, number: signal.Signals) -> bool:
    """False where there is no such process, or it is not ours any more (it changed its user)."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def ending(status: int) -> str:
    """A wait status in words.

    >>> ending(9), ending(256)
    ('signal 9', 'exit status 1')
    """
    code = os.waitstatus_to_exitcode(status)
    return f"signal {-code}" if code < 0 else f"exit status {code}"
