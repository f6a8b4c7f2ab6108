"""surefoot ledger: what became of every step, as a table, as JSON, by SQL, or as a digest."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.types.errors import UsageError

if TYPE_CHECKING:
    from surefoot.observe.ledger_view import LedgerView

SHOWN = (
    "step",
    "attempt",
    "verdict",
    "reason",
    "policy_version",
    "loss",
    "grad_norm",
    "loss_scale",
    "next_loss_scale",
    "lr",
    "num_tokens",
    "num_samples",
    "num_prompts",
    "mismatch_mean",
    "reward_mean",
    "seconds",
    "bundle",
    "detail",
)


def ledger_command(
    run_dir: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="The folder of a run.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, with every column.")] = False,
    sql: Annotated[str, typer.Option(help="A SELECT over steps, prompts, samples, events.", show_default=False)] = "",
    digest: Annotated[
        bool, typer.Option("--digest", help="Digests of the newest checkpoint's weights and of what must repeat.")
    ] = False,
) -> None:
    """Show the steps of a run and their verdicts; also while it goes on."""
    from surefoot.observe.ledger_view import LedgerView
    from surefoot.observe.rundir import RunDir

    if digest and (sql or as_json):
        raise UsageError("--digest goes with neither --sql nor --json")
    run = RunDir(run_dir)
    with LedgerView.read(run.ledger) as view:
        if digest:
            print(f"weights {newest_weights(run.checkpoints)}")
            print(f"ledger {view.digest()}")
        elif sql:
            names, rows = view.query(sql)
            _show(names, rows, as_json)
        else:
            _show_steps(view, as_json)


def newest_weights(checkpoints: Path) -> str:
    """The weights' digest in the manifest of the checkpoint that a resume would take, "none" where there is none."""
    from surefoot.train.find import find_checkpoint
    from surefoot.train.manifest import read_manifest

    path, _ = find_checkpoint(checkpoints)
    return read_manifest(path).weights_digest if path else "none"


def _show_steps(view: "LedgerView", as_json: bool) -> None:
    from surefoot.observe.rows import STEPS

    names = list(STEPS.columns) if as_json else list(SHOWN)
    _, rows = view.query(f"SELECT {', '.join(names)} FROM steps WHERE superseded = 0 ORDER BY step, attempt")
    if as_json:
        spans = names.index("spans")
        rows = [(*row[:spans], json.loads(row[spans]), *row[spans + 1 :]) for row in rows]
    _show(names, rows, as_json)
    if not as_json:
        balance = view.balance()
        dropped = ", ".join(f"{number} {reason}" for reason, number in balance.dropped.items())
        print(
            f"\nprompts: {balance.drawn} drawn = {balance.trained} trained + {balance.partly_trained} partly trained "
            f"+ {sum(balance.dropped.values())} dropped{f' ({dropped})' if dropped else ''} "
            f"+ {balance.in_flight} in flight"
        )


def _show(names: Sequence[str], rows: Sequence[Sequence[Any]], as_json: bool) -> None:
    if as_json:
        records = [dict(zip(names, map(_json_value, row), strict=True)) for row in rows]
        print(json.dumps(records, indent=1, allow_nan=False))
    else:
        print(format_table(names, rows))


def format_table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Columns under their names, numbers to the right.

    >>> print(format_table(["step", "reason"], [(1, "ok"), (10, "overflow")]))
    step  reason
       1  ok
      10  overflow
    """
    cells = [[_cell(value) for value in row] for row in rows]
    right = [bool(rows) and all(isinstance(row[i], int | float) for row in rows) for i in range(len(names))]
    widths = [max(len(text) for text in column) for column in zip(names, *cells, strict=True)]
    lines = [
        "  ".join(t.rjust(w) if r else t.ljust(w) for t, w, r in zip(line, widths, right, strict=True)).rstrip()
        for line in (names, *cells)
    ]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else str(value).replace("\n", "\\n")


def _json_value(value: Any) -> Any:
    """Strict JSON has no infinities; they are spelled as NaN is."""
    from surefoot.observe.metrics import spell

    if isinstance(value, bytes):
        return value.hex()
    return spell(value) if isinstance(value, float) else value
