"""surefoot eval: a run file's evaluation sets, for a checkpoint or for the model as it is."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.cli.arguments import Overrides, RunFile

if TYPE_CHECKING:
    from surefoot.loop.evaluate import Evaluation


def eval_command(
    run_file: RunFile,
    overrides: Overrides = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="A step's folder or a run's (its newest); without it, model.path as it is."),
    ] = None,
    save: Annotated[Path | None, typer.Option(help="A folder for the answers, a parquet file a set.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The figures as JSON, without a table.")] = False,
) -> None:
    """Evaluate the [[eval.sets]] of RUN.toml; nothing is trained, no run folder is made."""
    from surefoot.config.load import load_config

    config = load_config(run_file, *(overrides or ()))

    from surefoot.loop.assess import assess  # imports torch, so only now that the configuration is known to be right
    from surefoot.observe.console import Console

    evaluations = assess(config, checkpoint, save=save, console=Console(quiet=as_json))
    if as_json:
        print(json.dumps([_record(evaluation) for evaluation in evaluations], indent=1, allow_nan=False))
    else:
        print(_table(evaluations))


def _table(evaluations: "list[Evaluation]") -> str:
    from surefoot.cli.commands.ledger import format_table

    names = ("set", "prompts", "measure", "mean", "95% low", "high", "truncated", "invalid", "dropped")
    rows = []
    for evaluation in evaluations:
        figures = evaluation.figures
        for name, interval in evaluation.intervals().items():
            bounds = [f"{value:.4f}" for value in (interval.mean, interval.low, interval.high)]
            counts = (f"{figures['truncated']:.3f}", int(figures["invalid"]), int(figures["dropped"]))
            rows.append((evaluation.name, int(figures["prompts"]), name, *bounds, *counts))
    return format_table(names, rows)


def _record(evaluation: "Evaluation") -> dict[str, Any]:
    from surefoot.observe.metrics import spell

    prefix = f"eval/{evaluation.name}/"
    figures = {name.removeprefix(prefix): spell(value) for name, value in evaluation.metrics().items()}
    return {"set": evaluation.name, **figures}
