"""What is printed where there is no terminal: plain lines that align, and nothing from quiet ranks."""

import io
import math
from typing import Any

import pytest

from surefoot.observe.console import Console, step_header

STEP: dict[str, Any] = {
    "step": 12,
    "reward_mean": 0.5,
    "reward_std": 0.25,
    "accuracy": None,
    "length": 31.5,
    "loss": -0.00123,
    "grad_norm": 1.5,
    "kl": None,
    "mismatch": 1e-5,
    "tokens_per_second": 12345.6,
    "seconds": 2.5,
    "verdict": "applied",
    "reason": "ok",
}


def test_step_line() -> None:
    file = io.StringIO()
    console = Console(file=file)
    console.step(**STEP)
    console.step(**STEP | {"grad_norm": math.nan, "verdict": "skipped", "reason": "nonfinite_grad"})
    header, first, second = file.getvalue().splitlines()
    assert header == step_header()
    assert first.split() == [
        *("12", "0.500±0.250", "-", "31.5", "-1.23e-03", "1.50e+00", "-", "1.00e-05", "12,346", "2.50", "applied"),
    ]
    assert "nan" in second  # evidence is not hidden
    assert second.endswith("skipped: nonfinite_grad")
    assert header.index("verdict") == first.index("applied") == second.index("skipped")


def test_header_comes_again() -> None:
    file = io.StringIO()
    console = Console(file=file)
    for _ in range(41):
        console.step(**STEP)
    assert file.getvalue().splitlines().count(step_header()) == 3


def test_text_of_users_is_not_markup_and_not_wrapped() -> None:
    file = io.StringIO()
    console = Console(file=file)
    console.sample(prompt="[bold]2+2[/bold] :smile:", response="x" * 200 + "\nline", answers={"math": "4"}, reward=1.0)
    lines = file.getvalue().splitlines()
    assert lines[0] == "prompt   [bold]2+2[/bold] :smile:"
    assert lines[1:3] == ["response " + "x" * 200, "         line"]
    assert lines[3:] == ["answer   4  (math)", "reward   1.000"]


def test_warnings_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    Console().warn("step 3: [overflow]")
    assert capsys.readouterr().err == "warning: step 3: [overflow]\n"


def test_progress_is_silent_without_a_terminal() -> None:
    file = io.StringIO()
    console = Console(file=file)
    with console.progress("sampling", 10) as bar:
        bar.advance(4)
        bar.advance()
    assert file.getvalue() == ""


def test_progress_lets_errors_through() -> None:
    with pytest.raises(KeyError), Console(file=io.StringIO()).progress("sampling", 10):
        raise KeyError


def test_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    file = io.StringIO()
    console = Console(quiet=True, file=file)
    console.step(**STEP)
    console.info("x")
    console.warn("x")
    console.sample(prompt="a", response="b", answers={}, reward=0.0)
    with console.progress("sampling", 10) as bar:
        bar.advance(1)
    assert file.getvalue() == ""
    assert capsys.readouterr() == ("", "")
