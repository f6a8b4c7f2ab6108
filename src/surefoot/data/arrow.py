"""Arrow columns as the values JSON would hold: exact, or reported with row and column."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import types

from surefoot.data.row import EXACT_FLOAT64, INTEGERS_END, RawRow, parse_json, unique_keys
from surefoot.types.errors import DataError

Plain = Callable[[Any], Any]
EXACT_FLOATS = {pa.float64(): EXACT_FLOAT64, pa.float32(): 2.0**24, pa.float16(): 2.0**11}
AS_THEY_ARE = (types.is_boolean, types.is_integer, types.is_string, types.is_large_string, types.is_string_view)
LISTS = (
    types.is_list,
    types.is_large_list,
    types.is_fixed_size_list,
    types.is_list_view,
    types.is_large_list_view,
)


def arrow_rows(path: Path, batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> Iterator[RawRow]:
    """The rows of all batches, numbered from 1, with `columns` alone: what nobody asks for cannot make a row bad."""
    number = 0
    for batch in batches:
        arrays = {name: (batch.column(name), plain_reader(batch.column(name).type)) for name in columns}
        for index in range(batch.num_rows):
            number += 1
            yield RawRow(path, number, ": row ", partial(_read_row, arrays, index))


def _read_row(arrays: dict[str, tuple[Any, Plain]], index: int) -> dict[str, Any]:
    row = {}
    for name, (array, plain) in arrays.items():
        try:
            value = array[index].as_py()
            row[name] = None if value is None else plain(value)
        except (ValueError, OverflowError, DataError) as error:  # text that is not UTF-8, a struct's field twice
            raise DataError(f"column {name!r}: {error}") from error
    return row


def plain_reader(kind: pa.DataType) -> Plain:
    """What makes a plain value of one that Arrow's `as_py` gave; it raises `DataError` where none is the same."""
    if any(test(kind) for test in AS_THEY_ARE):
        return _same
    if kind in EXACT_FLOATS:
        return partial(_float, EXACT_FLOATS[kind])
    if types.is_decimal(kind):
        return _integer if kind.scale <= 0 else _decimal
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return plain_reader(kind.value_type)
    if any(test(kind) for test in LISTS):
        return partial(_list, plain_reader(kind.value_type))
    if types.is_struct(kind):
        return partial(_struct, {field.name: plain_reader(field.type) for field in kind})
    if types.is_map(kind):
        return partial(_map, plain_reader(kind.item_type))
    if isinstance(kind, pa.JsonType):
        return lambda value: parse_json(value.encode())
    return partial(_refuse, kind)


def _same(value: Any) -> Any:
    return value


def _float(exact: float, value: Any) -> float:
    """A float column may have been integers: from `exact` on every float is whole, and lost digits cannot be told."""
    number = float(value)
    if not math.isfinite(number):
        raise DataError(f"{number} is no JSON number" + (" (a missing value?)" if math.isnan(number) else ""))
    if exact <= abs(number) < INTEGERS_END:
        raise DataError(f"{number!r} may be an integer that lost digits as a float; store integers as int64 or text")
    return number


def _integer(value: Decimal) -> int:
    return int(value)


def _decimal(value: Decimal) -> float:
    number = float(value)
    if Decimal(repr(number)) != value:
        raise DataError(f"the decimal {value} has more digits than float64 holds; store it as text")
    return number


def _list(plain: Plain, values: list[Any]) -> list[Any]:
    return [None if value is None else plain(value) for value in values]


def _struct(readers: dict[str, Plain], values: dict[str, Any]) -> dict[str, Any]:
    return {name: None if values[name] is None else plain(values[name]) for name, plain in readers.items()}


def _map(plain: Plain, pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    for key, _ in pairs:
        if not isinstance(key, str):
            raise DataError(f"a map with the key {key!r}: the keys of an object are text")
    return unique_keys([(key, None if value is None else plain(value)) for key, value in pairs])


def _refuse(kind: pa.DataType, value: Any) -> Any:
    raise DataError(f"JSON has no value of type {kind}; store text, a number, a list or an object")
