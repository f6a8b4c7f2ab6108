"""surefoot train: the main job."""

import sys
from typing import Annotated

import typer

from surefoot.cli.arguments import Overrides, RunFile


def train_command(
    run_file: RunFile,
    overrides: Overrides = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint of observe.run_dir.")
    ] = False,
) -> None:
    """Train as RUN.toml says; key.path=value overrides it, in TOML syntax."""
    from surefoot.config.effects import find_warnings, given_keys
    from surefoot.config.load import load_config

    config = load_config(run_file, *(overrides or ()))
    for warning in find_warnings(config, given_keys(config)):
        print(f"warning: {warning}", file=sys.stderr)

    from surefoot.loop.run import run  # imports torch, so only now that the configuration is known to be right

    if run(config, resume=resume).stopped == "SIGINT":
        raise typer.Exit(130)  # what a shell expects of Ctrl-C; SIGTERM asked for a clean end and got one
