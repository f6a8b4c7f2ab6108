"""The folder of a run: where each thing lies, and who may write there."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from surefoot.types.errors import UsageError

FOLDERS = ("rollouts", "checkpoints", "bundles", "logs", "export")
MARKS = ("config.toml", "ledger.sqlite", *FOLDERS)  # one of these makes a folder a run's


@dataclass(frozen=True, slots=True)
class RunDir:
    path: Path

    def check(self, *, resume: bool = False) -> None:
        """UsageError where the folder holds a run that is not being resumed, where there is none to resume, or where
        it holds something else. Writes nothing.
        """
        path = self.path
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path}: is a file, a run needs a folder")
        content = {entry.name for entry in path.iterdir()} if path.is_dir() else set()
        if resume and not path.exists():
            raise UsageError(f"{path}: no run to resume")
        if content and not content & set(MARKS):
            raise UsageError(f"{path}: the folder is not empty and holds no run")
        if content and not resume:
            raise UsageError(f"{path}: already holds a run; resume it or name another observe.run_dir")

    def create(self, *, resume: bool = False) -> None:
        """Makes the folder and those in it; refuses what `check` refuses."""
        self.check(resume=resume)
        for name in FOLDERS:
            (self.path / name).mkdir(parents=True, exist_ok=True)

    @property
    def config(self) -> Path:
        return self.path / "config.toml"

    @property
    def ledger(self) -> Path:
        return self.path / "ledger.sqlite"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def export(self) -> Path:
        return self.path / "export"

    def rollouts(self, step: int) -> Path:
        return self.path / "rollouts" / f"step-{step:06d}.parquet"

    def evaluation(self, step: int, name: str) -> Path:
        return self.path / "rollouts" / evaluation_file(step, name)

    def bundle(self, step: int, reason: str) -> Path:
        return self.path / "bundles" / f"step-{step:06d}-{reason}"


def evaluation_file(step: int, name: str) -> str:
    """What the answers of one evaluation are called, in a run's folder and where `surefoot eval --save` puts them.

    >>> evaluation_file(12, "heldout")
    'eval-heldout-step-000012.parquet'
    """
    return f"eval-{name}-step-{step:06d}.parquet"


def default_run_dir(name: str, now: datetime) -> Path:
    """Where a run goes that does not say where.

    >>> default_run_dir("run", datetime(2026, 11, 30, 9, 5, 7)).as_posix()
    'runs/run-20261130-090507'
    """
    return Path("runs") / f"{name}-{now:%Y%m%d-%H%M%S}"
