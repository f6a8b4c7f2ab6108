"""JSON that gives back what it was given: tuples stay tuples, keys stay numbers. No other types, nothing lost."""

import json
from typing import Any

TUPLE, PAIRS = "$tuple", "$pairs"  # marks of what JSON has no form for


def dump_plain(value: Any) -> str:
    """Raises TypeError for a value of another type.

    >>> dump_plain({"label": (1, "a"), "n": {2: None}})
    '{"label": {"$tuple": [1, "a"]}, "n": {"$pairs": [[2, null]]}}'
    """
    return json.dumps(_mark(value), ensure_ascii=False)


def load_plain(text: str) -> Any:
    """The value `dump_plain` was given.

    >>> load_plain('{"label": {"$tuple": [1, "a"]}}')
    {'label': (1, 'a')}
    """
    return json.loads(text, object_hook=_unmark)


def _mark(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, list):
        return [_mark(item) for item in value]
    if isinstance(value, tuple):
        return {TUPLE: [_mark(item) for item in value]}
    if not isinstance(value, dict):
        raise TypeError(f"{type(value).__name__} is not plain data: {value!r:.80}")
    if all(isinstance(key, str) for key in value) and not value.keys() & {TUPLE, PAIRS}:
        return {key: _mark(item) for key, item in value.items()}
    return {PAIRS: [[_mark(key), _mark(item)] for key, item in value.items()]}


def _unmark(table: dict[str, Any]) -> Any:
    if table.keys() == {TUPLE}:
        return tuple(table[TUPLE])
    if table.keys() == {PAIRS}:
        return {key: item for key, item in table[PAIRS]}
    return table
