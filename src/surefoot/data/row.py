"""A row as its file holds it, and JSON read without what Python's reader would change and not say."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NoReturn

from surefoot.types.errors import DataError

INTEGERS_END = 2.0**64  # an integer column reaches no further
DEEPEST = 100  # lists and objects inside one another
EXACT_FLOAT64 = 2.0**53  # beyond it float64 leaves integers out


@dataclass(frozen=True, slots=True)
class RawRow:
    """Where a row stands and how to read it. `read` returns its values or raises `DataError` with the reason."""

    path: Path
    number: int  # of the line, or of the row where a file has no lines; from 1
    unit: Literal[":", ": row "]
    read: Callable[[], dict[str, Any]]

    @property
    def place(self) -> str:
        return f"{self.path}{self.unit}{self.number}"

    @property
    def origin(self) -> str:
        return f"{self.path.name}{self.unit}{self.number}"

    @property
    def name(self) -> str:
        return f"{self.path.stem}:{self.number}"


def parse_row(line: bytes) -> dict[str, Any]:
    r"""The object on one line of JSONL, by the rules of `parse_json`.

    >>> parse_row(b'{"prompt": "2+2?", "label": 4}\r')
    {'prompt': '2+2?', 'label': 4}
    """
    return as_object(parse_json(line))


def parse_json(text: bytes) -> Any:
    r"""The value of a JSON text.

    Refused, beside what is no JSON: a key that stands twice (the first value would be lost), NaN and Infinity, a
    number beyond float64 (1e400 would become infinite, 1e-400 zero), a whole number with a point that float64 cannot
    hold (9007199254740995.0 would become ...996.0), half a surrogate pair (no tokenizer takes it), nesting that would
    exhaust the stack of whoever copies or writes the value later.
    Raises `DataError` with the reason; the caller knows file and line.
    """
    try:
        value = DECODER.decode(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8: {error.reason} at byte {error.start + 1}") from error
    except json.JSONDecodeError as error:
        raise DataError(f"not JSON: {error.msg} at column {error.colno}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"not JSON: {error}") from error
    if text.count(b"[") + text.count(b"{") > DEEPEST:
        _refuse_deep(value)
    if b"\\ud" in text.lower():
        _refuse_lone_surrogates(value)
    return value


def as_object(value: Any) -> dict[str, Any]:
    """`value`, which must be an object to be a row."""
    if not isinstance(value, dict):
        raise DataError(f"not an object but {json.dumps(value)[:40]}")
    return value


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of its pairs; a key that stands twice is refused."""
    row: dict[str, Any] = {}
    for key, value in pairs:
        if key in row:
            raise DataError(f"the key {key!r} stands twice")
        row[key] = value
    return row


def _refuse_constant(name: str) -> NoReturn:
    raise DataError(f"not JSON: {name}")


def _float(text: str) -> float:
    value = float(text)
    became_zero = value == 0 and text.lower().partition("e")[0].strip("-0.")
    if not math.isfinite(value) or became_zero:
        raise DataError(f"the number {text} is out of range")
    if EXACT_FLOAT64 <= abs(value) < INTEGERS_END and Decimal(repr(value)) != Decimal(text):
        raise DataError(f"the number {text} would become {value!r}; written without a point it is exact")
    return value


def _refuse_deep(value: Any) -> None:
    level = [value]
    for _ in range(DEEPEST + 1):
        containers = [inner for inner in level if isinstance(inner, list | dict)]
        level = [x for inner in containers for x in (inner.values() if isinstance(inner, dict) else inner)]
        if not containers:
            return
    raise DataError(f"nested more than {DEEPEST} deep")


def _refuse_lone_surrogates(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError("text with half a surrogate pair (\\ud800 to \\udfff)") from error


DECODER = json.JSONDecoder(object_pairs_hook=unique_keys, parse_constant=_refuse_constant, parse_float=_float)
