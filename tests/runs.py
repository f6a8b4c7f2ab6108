"""Runs and scripts in forked children of one warm process (see zygote.py), and what two runs are compared by."""

import functools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support import child_environment
from surefoot.observe.ledger_view import LedgerView
from surefoot.train.find import find_checkpoint
from surefoot.train.manifest import read_manifest

ZYGOTE = Path(__file__).with_name("zygote.py")
SHOWN = 6000  # characters of what a failing child printed


def job(config: Path, folder: Path, *overrides: str, resume: bool = False, kill: tuple[str, int] | None = None) -> Any:
    """A run in `folder`; runs in one folder follow each other, others may run beside them."""
    where = [f'observe.run_dir="{folder}"', *overrides]
    return {"config": str(config), "overrides": where, "resume": resume, "kill": kill, "lane": str(folder), "ranks": 1}


def run_all(jobs: Sequence[Any], timeout: float = 250) -> list[int]:
    """Exit status of each; -9 where it killed itself. Fails with the output where one of them raised."""
    with tempfile.TemporaryDirectory() as log:
        statuses = ask(jobs, log, timeout)
        failed = [number for number, status in enumerate(statuses) if status == 1]
        assert not failed, printed(log, failed[0], "err")
    return statuses


def run_script(script: Path, arguments: Sequence[str], ranks: int, timeout: float) -> str:
    """What the ranks printed. Fails with the output where one of them failed."""
    todo = {"script": str(script), "arguments": list(arguments), "lane": "", "ranks": ranks}
    with tempfile.TemporaryDirectory() as log:
        (status,) = ask([todo], log, timeout)
        assert status == 0, f"status {status}\n{printed(log, 0, 'out')[-SHOWN:]}{printed(log, 0, 'err')[-SHOWN:]}"
        return printed(log, 0, "out")


def printed(log: str, number: int, kind: str) -> str:
    """By all ranks of a job."""
    return "".join(path.read_text(encoding="utf8") for path in sorted(Path(log).glob(f"{number}-*.{kind}")))


@functools.cache
def zygote() -> subprocess.Popen[str]:
    """Ends with its stdin: with `end_zygote`, or with the tests however they end."""
    return subprocess.Popen(
        [sys.executable, str(ZYGOTE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=child_environment(),
        start_new_session=True,
    )


def end_zygote() -> None:
    if zygote.cache_info().currsize:
        process = zygote()
        process.communicate(timeout=10)
        zygote.cache_clear()


def ask(jobs: Sequence[Any], log: str, timeout: float) -> list[int]:
    process = zygote()
    assert process.stdin and process.stdout
    request = {"jobs": list(jobs), "log": log, "cwd": os.getcwd(), "environment": child_environment()}
    try:
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], timeout)[0]:
            raise TimeoutError(f"no answer within {timeout:g} s")
        statuses: list[int] = json.loads(process.stdout.readline())
    except BaseException:  # what it is still at is nobody's any more: the next request gets a new process
        zygote.cache_clear()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    return statuses


def digests(folder: Path) -> tuple[str, str]:
    """(of the newest checkpoint's weights, of the ledger): equal for equal runs."""
    path, _ = find_checkpoint(folder / "checkpoints")
    assert path is not None
    with LedgerView.read(folder / "ledger.sqlite") as ledger:
        return read_manifest(path).weights_digest, ledger.digest()


def query(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    with LedgerView.read(folder / "ledger.sqlite") as ledger:
        return ledger.query(sql)[1]
