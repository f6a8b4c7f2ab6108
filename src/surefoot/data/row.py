"""One line of a JSONL file as an object, refusing what Python's reader would change without a word."""

import json
import math
from typing import Any, NoReturn

from surefoot.types.errors import DataError


def parse_row(line: bytes) -> dict[str, Any]:
    r"""The object on one line.

    Refused, beside what is no JSON: a key that stands twice (the first value would be lost), NaN and Infinity, a
    number beyond float64 (1e400 would become infinite, 1e-400 zero), half a surrogate pair (no tokenizer takes it).
    Raises `DataError` with the reason; the caller knows file and line.

    >>> parse_row(b'{"prompt": "2+2?", "label": 4}\r')
    {'prompt': '2+2?', 'label': 4}
    """
    try:
        row = json.loads(
            line.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite
        )
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8: {error.reason} at byte {error.start + 1}") from error
    except json.JSONDecodeError as error:
        raise DataError(f"not JSON: {error.msg} at column {error.colno}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"not JSON: {error}") from error
    if not isinstance(row, dict):
        raise DataError(f"not an object but {json.dumps(row)[:40]}")
    if b"\\ud" in line.lower():
        _refuse_lone_surrogates(row)
    return row


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for key, value in pairs:
        if key in row:
            raise DataError(f"the key {key!r} stands twice")
        row[key] = value
    return row


def _refuse_constant(name: str) -> NoReturn:
    raise DataError(f"not JSON: {name}")


def _finite(text: str) -> float:
    value = float(text)
    became_zero = value == 0 and text.lower().partition("e")[0].strip("-0.")
    if not math.isfinite(value) or became_zero:
        raise DataError(f"the number {text} is out of range")
    return value


def _refuse_lone_surrogates(row: dict[str, Any]) -> None:
    try:
        json.dumps(row, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError("text with half a surrogate pair (\\ud800 to \\udfff)") from error
