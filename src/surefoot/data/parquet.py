"""The rows of a parquet file."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from surefoot.data.arrow import arrow_rows
from surefoot.data.row import RawRow
from surefoot.types.errors import DataError

Choose = Callable[[Sequence[str]], list[str]]
"""Of a file's columns those that are read. Raises `DataError` where one that is needed is missing or there twice."""


def parquet_rows(path: Path, choose: Choose) -> Iterator[RawRow]:
    """Its rows, numbered from 1. Raises `DataError` for a file that cannot be opened or is damaged."""
    try:
        with path.open("rb") as handle, pq.ParquetFile(handle) as file:
            try:
                columns = choose(file.schema_arrow.names)
            except DataError as error:
                raise DataError(f"{path}: {error}") from error
            yield from arrow_rows(path, file.iter_batches(columns=columns), columns)
    except pa.ArrowException as error:
        raise DataError(f"{path}: it cannot be read as parquet: {str(error).splitlines()[0]}") from error
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or str(error).splitlines()[0]}") from error
