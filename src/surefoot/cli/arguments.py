"""Arguments that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

RunFile = Annotated[Path, typer.Argument(metavar="RUN.toml", help="The run file.", show_default=False)]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY.PATH=VALUE", help="Overrides, values in TOML.", show_default=False),
]
