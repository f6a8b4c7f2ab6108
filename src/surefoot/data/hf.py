"""The rows of a Hugging Face data set's folder: as `save_to_disk` wrote it, or as a hub snapshot has it."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from surefoot.data.arrow import arrow_rows
from surefoot.data.csv import csv_rows
from surefoot.data.jsonl import json_rows
from surefoot.data.parquet import Choose, parquet_rows
from surefoot.data.row import RawRow
from surefoot.types.errors import DataError, UsageError

SAVED = ("dataset_dict.json", "state.json")  # one of them is in every folder that save_to_disk wrote
ROWS_AT_ONCE = 1000

T = TypeVar("T")


def folder_rows(folder: Path, split: str, choose: Choose) -> Iterator[RawRow]:
    """The rows of one split; "" is the only one there is, "main/train" the one of configuration `main`.

    A snapshot's data files are found as `datasets` finds them, and read one after the other by this package's own
    readers: those of `datasets` guess types ("007" in a CSV file becomes 7). Nothing is downloaded, nothing cached.
    Raises `DataError` for a folder without data or without that split, `UsageError` where `datasets` is missing.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder" if not folder.exists() else f"{folder}: a file, not a folder")
    if any((folder / name).is_file() for name in SAVED):
        yield from _saved_rows(folder, split, choose)
        return
    configuration, _, split = split.rpartition("/")
    loader, files = _data_files(folder, configuration)
    readers: dict[str, Callable[[Path], Iterator[RawRow]]] = {
        "json": json_rows,
        "csv": csv_rows,
        "parquet": partial(parquet_rows, choose=choose),
    }
    if loader not in readers:
        raise DataError(f"{folder}: its files need the loader {loader!r} of `datasets`; only JSON, CSV and parquet do")
    for file in _pick(files, split, folder):
        yield from readers[loader](Path(file))


def _saved_rows(folder: Path, split: str, choose: Choose) -> Iterator[RawRow]:
    datasets = _import_datasets()
    try:
        saved = datasets.load_from_disk(str(folder))
    except Exception as error:  # whatever a damaged folder makes the library raise
        raise DataError(f"{folder}: `datasets` cannot load it: {_first_lines(error)}") from error
    if isinstance(saved, datasets.DatasetDict):
        name = split or _pick({name: name for name in saved}, split, folder)
        saved, folder = _pick(saved, name, folder), folder / name
    elif split:
        own = str(saved.split or "")
        _pick({own: saved} if own else {}, split, folder)
    try:
        columns = choose(saved.column_names)
    except DataError as error:
        raise DataError(f"{folder}: {error}") from error
    table = saved.select_columns(columns).with_format("arrow")
    pieces = (table[start : start + ROWS_AT_ONCE] for start in range(0, len(saved), ROWS_AT_ONCE))
    yield from arrow_rows(folder, (batch for piece in pieces for batch in piece.to_batches()), columns)


def _data_files(folder: Path, configuration: str) -> tuple[str, Mapping[str, Sequence[str]]]:
    """(the loader's name, split -> files)."""
    datasets = _import_datasets()
    try:
        with tempfile.TemporaryDirectory() as cache:  # it puts a lock there, which need not lie about for good
            builder = datasets.load_dataset_builder(str(folder.resolve()), configuration or None, cache_dir=cache)
    except Exception as error:  # no data files, a README that contradicts them, several configurations
        advice = "" if configuration else ' (split = "CONFIGURATION/SPLIT" picks one of several)'
        raise DataError(f"{folder}: `datasets` finds no data set: {_first_lines(error)}{advice}") from error
    return builder.name, {str(name): files for name, files in builder.config.data_files.items()}


def _pick(splits: Mapping[str, T], split: str, folder: Path) -> T:
    if split in splits:
        return splits[split]
    if not split and len(splits) == 1:
        return next(iter(splits.values()))
    has = f"its splits are {', '.join(splits)}" if splits else "its one split has no name"
    raise DataError(f"{folder}: " + (f"no split {split!r}; {has}" if split else f"split is not set; {has}"))


def _first_lines(error: Exception) -> str:
    """What it says in one line, without the example call that some errors of the library end with."""
    return " ".join(str(error).partition("Example of usage")[0].split()) or type(error).__name__


def _import_datasets() -> Any:
    try:
        import datasets  # takes seconds
    except ImportError as error:
        raise UsageError('source = "datasets" needs `pip install "surefoot[datasets]"`') from error
    return datasets
