"""W&B in a process of its own: its client patches the process it lives in and may hold up its exit.

    tracker's thread                    wandb.py                     wandb-core
    one line of JSON ---- stdin ------> wandb.init, log, finish ---> files, network
    waits for a line <--- stdout ------ {} or {"error": ...}
                          stderr -----> logs/wandb.log

The process ends when its stdin does, so also when the run is killed; wandb-core ends with the process.
"""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from surefoot.observe.durable import write_atomic
from surefoot.types.errors import SurefootError

PROGRAM = Path(__file__).with_name("wandb.py")
EXIT_SECONDS = 5.0  # from the last answer to the end of the process


class WandbTracker:
    """`logs`: the run's folder for logs. `settings`: what W&B shows as the run's configuration."""

    name = "wandb"

    def __init__(self, logs: Path, *, name: str, project: str, mode: str, settings: Mapping[str, Any]) -> None:
        self._logs = logs
        self._begin = {"name": name, "project": project, "mode": mode, "config": dict(settings)}
        self._process: subprocess.Popen[str] | None = None
        self._abandoned = False

    def open(self) -> None:
        begin = {"dir": str(self._logs.resolve()), "id": self._run_id(), **self._begin}
        with open(self._logs / "wandb.log", "ab") as log:
            self._process = subprocess.Popen(
                # -P: neither this folder nor the working directory, where W&B leaves a `wandb`, is searched for modules
                [sys.executable, "-P", str(PROGRAM)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={name: value for name, value in os.environ.items() if name != "WANDB_SERVICE"},
                encoding="utf8",
                start_new_session=True,  # Ctrl-C is the run's to handle
            )
        if self._abandoned:
            self.abandon()
        self._ask(begin)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._ask({"step": step, "metrics": dict(metrics)})

    def close(self) -> None:
        self._ask({"end": True})
        assert self._process
        self._process.communicate(timeout=EXIT_SECONDS)

    def abandon(self) -> None:
        self._abandoned = True
        if self._process:
            self._process.kill()

    def _ask(self, request: Mapping[str, Any]) -> None:
        """Raises SurefootError with what W&B said, or where its process ended."""
        assert self._process and self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise SurefootError(f"its process ended; see {self._logs / 'wandb.log'}")
        if error := json.loads(line).get("error"):
            raise SurefootError(error)

    def _run_id(self) -> str:
        """The same for every resume of this run."""
        path = self._logs / "wandb" / "id"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, uuid.uuid4().hex.encode())
        return path.read_text(encoding="utf8").strip()
