"""surefoot export: the policy of a checkpoint as a Hugging Face model folder."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer


def export_command(
    checkpoint: Annotated[
        Path,
        typer.Argument(metavar="CHECKPOINT", help="A step's folder, or a run's: its newest one.", show_default=False),
    ],
    out: Annotated[Path, typer.Argument(metavar="DIR", help="Where to, empty or not there.", show_default=False)],
    model: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="The model that was trained; left out, the run's.", show_default=False),
    ] = None,
    dtype: Annotated[
        Literal["fp32", "bf16", "fp16"] | None,
        typer.Option(help="Round the weights; left out, they stay as trained, bit for bit.", show_default=False),
    ] = None,
) -> None:
    """Write a checkpoint's policy as safetensors with config, tokenizer and chat template."""
    from surefoot.interop.hf import export_checkpoint

    def say(line: str) -> None:
        print(line, file=sys.stderr)

    done = export_checkpoint(checkpoint, out, model=model or "", dtype=dtype or "", say=say)
    print(f"{done.path}: {done.parameters:,} parameters, {done.bytes:,} bytes, weights {done.digest}")
