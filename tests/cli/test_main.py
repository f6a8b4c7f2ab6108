"""Exit codes, one-line errors, and a command line that answers at once."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from surefoot.cli import main as cli
from surefoot.types.errors import CheckpointError, ConfigError, RunHalted


def test_help_imports_no_torch_and_is_quick() -> None:
    code = (
        "import sys\nfrom surefoot.cli.main import run_command\ncode = run_command(['--help'])\n"
        "heavy = {'torch', 'transformers', 'pyarrow', 'reasoning_gym'} & set(sys.modules)\n"
        "sys.exit(code or (f'imported {heavy}' if heavy else 0))"
    )
    seconds = []
    for _ in range(5):
        start = time.monotonic()
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        seconds.append(time.monotonic() - start)
        assert done.returncode == 0, done.stderr
        for command in cli.COMMANDS:
            assert command in done.stdout
        if seconds[-1] < 1.0:
            return
    pytest.fail(f"--help took {min(seconds):.2f} s, the quickest of {len(seconds)}: the machine may have been busy")


def test_no_torch_where_it_is_not_needed(tmp_path: Path) -> None:
    lines = [*([name, "none"] for name in ("check", "ledger", "eval")), *([name, "--help"] for name in cli.COMMANDS)]
    code = (
        f"import sys\nfrom surefoot.cli.main import run_command\nfor line in {lines}:\n"
        "    run_command(line)\n    if 'torch' in sys.modules:\n        sys.exit(f'{line} imported torch')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Missing command"),
        (["trian"], "No such command 'trian'"),
        (["train"], "Missing argument 'RUN.toml'"),
        (["train", "--reusme", "x"], "No such option"),
        (["train", "none.toml"], "none.toml: cannot be read: No such file or directory"),
        (["check", "none.toml"], "none.toml: cannot be read"),
        (["check", "none.toml", "--ranks", "0"], "--ranks"),
        (["ledger", "none"], "none/ledger.sqlite: there is no ledger"),
        (["ledger", "none", "--digest", "--json"], "--digest goes with neither"),
    ],
)
def test_misuse_is_one_line_and_2(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run_command(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("error: ")
    assert said in line


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("run.toml:1: a\nrun.toml:2: b"), 2),
        (RunHalted("step 3: skip_budget_exhausted"), 1),
        (CheckpointError("x: torn"), 1),
    ],
)
def test_errors_of_a_command(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> None:
        raise error

    monkeypatch.setitem(cli.COMMANDS, "ledger", command)
    assert cli.run_command(["ledger"]) == code
    assert capsys.readouterr().err == "".join(f"error: {line}\n" for line in str(error).splitlines())


def test_a_fault_of_ours_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def command() -> None:
        raise ZeroDivisionError

    monkeypatch.setitem(cli.COMMANDS, "ledger", command)
    with pytest.raises(ZeroDivisionError):
        cli.run_command(["ledger"])
