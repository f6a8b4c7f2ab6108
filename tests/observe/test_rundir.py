"""A run's folder is refused where it would mix two runs, and files in it are whole or absent."""

import os
from datetime import datetime
from pathlib import Path

import pytest

from surefoot.observe.durable import write_atomic
from surefoot.observe.rundir import RunDir, default_run_dir
from surefoot.types.errors import UsageError


def test_paths(tmp_path: Path) -> None:
    run = RunDir(tmp_path / "runs" / "a")
    run.create()
    root = tmp_path / "runs" / "a"
    assert run.config == root / "config.toml"
    assert run.ledger == root / "ledger.sqlite"
    assert run.metrics == root / "metrics.jsonl"
    assert run.rollouts(12) == root / "rollouts" / "step-000012.parquet"
    assert run.bundle(7, "nonfinite_grad") == root / "bundles" / "step-000007-nonfinite_grad"
    for folder in ("rollouts", "checkpoints", "bundles", "logs", "export"):
        assert (root / folder).is_dir()


def test_a_run_is_not_written_over(tmp_path: Path) -> None:
    RunDir(tmp_path / "a").create()
    with pytest.raises(UsageError, match="already holds a run"):
        RunDir(tmp_path / "a").create()
    RunDir(tmp_path / "a").create(resume=True)


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    RunDir(tmp_path).create()


@pytest.mark.parametrize("resume", [False, True])
def test_a_strangers_folder_is_not_taken(tmp_path: Path, resume: bool) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(UsageError, match="not empty and holds no run"):
        RunDir(tmp_path).create(resume=resume)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run to resume"):
        RunDir(tmp_path / "a").create(resume=True)
    assert not (tmp_path / "a").exists()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    with pytest.raises(UsageError, match="is a file"):
        RunDir(tmp_path / "a").create()


def test_default_run_dir() -> None:
    assert default_run_dir("try", datetime(2026, 1, 2, 3, 4, 5)) == Path("runs/try-20260102-030405")


def test_write_atomic(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    write_atomic(path, b"one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["a.bin"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    write_atomic(path, b"one")
    with pytest.raises(TypeError):
        write_atomic(path, "not bytes")  # type: ignore[arg-type]
    assert path.read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["a.bin"]
