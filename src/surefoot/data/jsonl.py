"""The rows of JSON files: an object a line, or one array of objects."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from surefoot.data.row import RawRow, as_object, parse_json, parse_row
from surefoot.types.errors import DataError

BOM = b"\xef\xbb\xbf"
NOT_TEXT = {  # how a file begins -> what to do about it
    b"PAR1": 'a parquet file: set source = "parquet"',
    b"\x1f\x8b": "compressed by gzip: unpack it first",
}


def jsonl_rows(path: Path) -> Iterator[RawRow]:
    """Every line that is not blank. Lines end at a line feed alone and are counted from 1, as editors do."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                text = _first_line(path, line) if number == 1 else line
                if text.strip():
                    yield RawRow(path, number, ":", partial(parse_row, text))
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from error


def _first_line(path: Path, line: bytes) -> bytes:
    for start, advice in NOT_TEXT.items():
        if line.startswith(start):
            raise DataError(f"{path}: {advice}")
    return line.removeprefix(BOM)


def _begins_an_array(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(1024).removeprefix(BOM).lstrip().startswith(b"[")


def json_rows(path: Path) -> Iterator[RawRow]:
    """The entries of a .json file that is one array, numbered from 1; of any other file the lines, as `jsonl_rows`."""
    if path.suffix != ".json" or not _begins_an_array(path):
        yield from jsonl_rows(path)
        return
    try:
        entries = parse_json(path.read_bytes().removeprefix(BOM))
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    for number, entry in enumerate(entries, start=1):
        yield RawRow(path, number, ": row ", partial(as_object, entry))
