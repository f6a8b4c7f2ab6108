"""The command line. Commands import what they need when they run, so that `--help` loads no torch."""

import io
import sys
from collections.abc import Callable

import typer

from surefoot.cli.commands.bench import bench_command
from surefoot.cli.commands.check import check_command
from surefoot.cli.commands.eval import eval_command
from surefoot.cli.commands.export import export_command
from surefoot.cli.commands.ledger import ledger_command
from surefoot.cli.commands.train import train_command
from surefoot.types.errors import SurefootError, UsageError

COMMANDS: dict[str, Callable[..., None]] = {
    "train": train_command,
    "check": check_command,
    "eval": eval_command,
    "ledger": ledger_command,
    "export": export_command,
    "bench": bench_command,
}
MISUSE = typer.BadParameter.__mro__[1]  # base of every misuse of the command line, click's or the copy typer brings


def main() -> None:
    """The `surefoot` command. Exits with 2 on an error of use, 1 on a fault of the run; neither shows a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character must not end a run
    sys.exit(run_command(sys.argv[1:]))


def run_command(arguments: list[str]) -> int:
    """The exit code of one command line; errors are printed to stderr, a line for each problem."""
    try:
        code = make_app()(arguments, prog_name="surefoot", standalone_mode=False)
    except UsageError as error:
        return _fail(str(error), 2)
    except SurefootError as error:
        return _fail(str(error), 1)
    except OSError as error:  # the machine's: a full disk, a folder that may not be written
        return _fail(str(error), 1)
    except typer.Abort:
        return _fail("interrupted", 130)
    except Exception as error:
        if isinstance(error, MISUSE):
            return _fail(f"{_message(error)} (surefoot --help)", 2)
        raise
    return code if isinstance(code, int) else 0


def make_app() -> typer.Typer:
    app = typer.Typer(
        help="RL post-training for language models in which every step is accounted for.",
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name, command in COMMANDS.items():
        app.command(name)(command)
    return app


def _message(error: Exception) -> str:
    """One line of a misuse; the method is click's, whose type typer does not export."""
    text: str = error.format_message()  # type: ignore[attr-defined]
    return " ".join(text.split())


def _fail(message: str, code: int) -> int:
    for line in message.splitlines():
        print(f"error: {line}", file=sys.stderr)
    return code
