"""Runs in forked children of one warm process (see zygote.py), and what two runs are compared by."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from surefoot.observe.ledger_view import LedgerView
from surefoot.train.find import find_checkpoint
from surefoot.train.manifest import read_manifest

ZYGOTE = Path(__file__).with_name("zygote.py")


def job(config: Path, folder: Path, *overrides: str, resume: bool = False, kill: tuple[str, int] | None = None) -> Any:
    where = f'observe.run_dir="{folder}"'
    return {"config": str(config), "overrides": [where, *overrides], "resume": resume, "kill": kill}


def run_all(jobs: Sequence[Any], timeout: float = 250) -> list[int]:
    """Exit status of each; -9 where it killed itself. Fails with the output where one of them raised."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ZYGOTE.parent.parent)}
    done = subprocess.run(
        [sys.executable, str(ZYGOTE)],
        input=json.dumps({"runs": list(jobs)}),
        check=True,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment,
    )
    statuses: list[int] = json.loads(done.stdout)
    assert 1 not in statuses, done.stderr[-6000:]
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
