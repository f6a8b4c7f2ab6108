"""What a run says on the terminal: a table with a line a step, progress, warnings. Only rank 0 speaks.

Where the output is not a terminal it is plain text: no colours, no bars, no wrapping.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console as RichConsole
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from surefoot.types.train import Verdict

COLOURS = {"applied": "green", "skipped": "yellow", "halted": "bold red"}
HEADER_EVERY = 20  # lines, so that the names stay on the screen
COLUMNS = (
    ("step", 6),
    ("reward", 15),
    ("acc", 6),
    ("length", 7),
    ("loss", 10),
    ("grad", 9),
    ("kl", 9),
    ("mismatch", 9),
    ("tok/s", 8),
    ("sec", 7),
)


class Bar:
    """Progress under way: `advance` it by each amount done."""

    def __init__(self, advance: Callable[[int], None]) -> None:
        self._advance = advance

    def advance(self, amount: int = 1) -> None:
        self._advance(amount)


class Console:
    """`quiet`: says nothing, for ranks other than 0. `file`: for what a run reports; warnings go to stderr."""

    def __init__(self, *, quiet: bool = False, file: TextIO | None = None) -> None:
        self._out = RichConsole(file=file or sys.stdout, quiet=quiet, highlight=False, emoji=False, soft_wrap=True)
        self._err = RichConsole(file=sys.stderr, quiet=quiet, highlight=False, emoji=False, soft_wrap=True)
        self._lines = 0

    def step(
        self,
        *,
        step: int,
        reward_mean: float | None,
        reward_std: float | None,
        accuracy: float | None,
        length: float | None,
        loss: float | None,
        grad_norm: float | None,
        kl: float | None,
        mismatch: float | None,
        tokens_per_second: float | None,
        seconds: float | None,
        verdict: Verdict,
        reason: str,
    ) -> None:
        """A line of the table; what was not measured is None and shows as '-'. `length` in tokens."""
        if self._lines % HEADER_EVERY == 0:
            self._out.print(Text(step_header(), style="bold"))
        self._lines += 1
        cells = (
            str(step),
            f"{_number(reward_mean, '.3f')}±{_number(reward_std, '.3f')}",
            _number(accuracy, ".3f"),
            _number(length, ".1f"),
            _number(loss, "+.2e"),
            _number(grad_norm, ".2e"),
            _number(kl, ".2e"),
            _number(mismatch, ".2e"),
            _number(tokens_per_second, ",.0f"),
            _number(seconds, ".2f"),
        )
        line = Text("  ".join(cell.rjust(width) for cell, (_, width) in zip(cells, COLUMNS, strict=True)) + "  ")
        said = verdict if reason == "ok" else f"{verdict}: {reason}"
        self._out.print(line.append(said, style=COLOURS[verdict]))

    def info(self, text: str) -> None:
        self._out.print(Text(text))

    def warn(self, text: str) -> None:
        self._err.print(Text.assemble(("warning: ", "yellow"), text))

    def sample(self, *, prompt: str, response: str, answers: Mapping[str, str], reward: float | None) -> None:
        """One rollout, for people. `answers`: what each part's extraction accepted."""
        self._out.print(Text.assemble(("prompt   ", "dim"), _indent(prompt)))
        self._out.print(Text.assemble(("response ", "dim"), _indent(response)))
        for part, answer in answers.items():
            self._out.print(Text.assemble(("answer   ", "dim"), f"{_indent(answer)}  ({part})"))
        self._out.print(Text.assemble(("reward   ", "dim"), _number(reward, ".3f")))

    @contextmanager
    def progress(self, description: str, total: int) -> Iterator[Bar]:
        """A bar for the time of the block, gone after it. Nothing shows where the output is not a terminal."""
        if self._out.quiet or not self._out.is_terminal:
            yield Bar(lambda amount: None)
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self._out, transient=True) as bar:
            task = bar.add_task(description, total=total)
            yield Bar(lambda amount: bar.advance(task, amount))


def step_header() -> str:
    return "  ".join(name.rjust(width) for name, width in COLUMNS) + "  verdict"


def _number(value: float | None, form: str) -> str:
    """A number in a cell; a dash for what was not measured.

    >>> _number(0.5, ".3f"), _number(None, ".3f"), _number(float("nan"), ".3f")
    ('0.500', '-', 'nan')
    """
    return "-" if value is None else format(value, form)


def _indent(text: str) -> str:
    return text.replace("\n", "\n" + " " * 9)
