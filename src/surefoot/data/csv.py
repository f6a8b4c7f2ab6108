"""The rows of a CSV or TSV file with a header. Every value is text: the format knows no other."""

import csv
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from surefoot.data.row import RawRow, unique_keys
from surefoot.types.errors import DataError


def csv_rows(path: Path) -> Iterator[RawRow]:
    """Its rows by the number of the line on which each ends; an empty field is empty text."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ",", strict=True)
            header = next(lines, [])
            for values in lines:
                if values:
                    yield RawRow(path, lines.line_num, ":", partial(_read_row, header, values))
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{path}: it cannot be read as CSV: {error}") from error


def _read_row(header: list[str], values: list[str]) -> dict[str, Any]:
    if len(values) != len(header):
        raise DataError(f"{len(values)} fields under a header of {len(header)}")
    return unique_keys(list(zip(header, values, strict=True)))
