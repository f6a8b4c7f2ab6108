"""One line for each thing pydantic refuses: the key, what was expected, what was given."""

import json
from collections.abc import Mapping
from typing import Any, get_args, get_origin

from pydantic_core import ErrorDetails

from surefoot.config.keys import Key, Path, all_keys, describe_type, dotted, expected, find_key, without_indices
from surefoot.config.nearest import nearest_choice
from surefoot.config.suggest import unknown_key

LONGEST_VALUE = 60


def explain_error(error: ErrorDetails) -> list[tuple[Path, str]]:
    """(place, why) for one refusal; an unknown table gives one line for each key in it."""
    path = error["loc"]
    if error["type"] == "extra_forbidden":
        return list(_unknown(path, error["input"]))
    if error["type"] == "missing":
        return [(path, _missing(path))]
    key = find_key(path)
    if key is None:
        return [(path, f"{dotted(path)}: {error['msg']}")]
    return [
        (path, f"{dotted(path)}: expected {_expected(key, path)}, got {describe(error['input'])}{_hint(key, error)}")
    ]


def describe(value: Any) -> str:
    """A value with its TOML type.

    >>> describe("1e-5"), describe(True), describe({"a": 1})
    ('string "1e-5"', 'boolean true', 'table {"a": 1}')
    """
    kinds = {bool: "boolean", int: "integer", float: "float", str: "string", list: "array", dict: "table"}
    shown = json.dumps(value, ensure_ascii=False, default=str)
    shown = shown if len(shown) <= LONGEST_VALUE else shown[:LONGEST_VALUE] + "..."
    return f"{kinds.get(type(value), 'date or time')} {shown}"


def _unknown(path: Path, value: Any) -> list[tuple[Path, str]]:
    """A table that is no section: a misspelt one is named as such, else each of its keys looks for its own place."""
    message = unknown_key(path)
    if isinstance(value, Mapping) and value and "did you mean" not in message:
        return [line for name, item in value.items() for line in _unknown((*path, name), item)]
    return [(path, message)]


def _missing(path: Path) -> str:
    key = find_key(path)
    assert key is not None, path  # pydantic only misses what the schema names
    if key.table is not None:
        needed = [k.leaf for k in all_keys().values() if k.section == key.name and k.field.is_required()]
        return f"section [{key.name}] is missing" + (f"; it needs {', '.join(needed)}" if needed else "")
    section = find_key(path[:-1])
    header = f"[[{key.section}]]" if section is not None and section.is_list else f"[{key.section}]"
    return f"{dotted(path)} is missing: section {header} needs {key.leaf}"


def _expected(key: Key, path: Path) -> str:
    if isinstance(path[-1], int):
        return describe_type(get_args(key.field.annotation)[0])
    return expected(key.field)


def _hint(key: Key, error: ErrorDetails) -> str:
    value, annotation = error["input"], key.field.annotation
    if error["type"] == "literal_error" and isinstance(value, str):
        near = nearest_choice(value, list(get_args(annotation)))
        return f'; did you mean "{near}"?' if near else ""
    if isinstance(value, str) and (annotation in (int, float, bool)):
        return "; write it without quotes" if _reads_as(value, annotation) else ""
    if key.is_list and key.table is not None and isinstance(value, Mapping):
        return f"; write [[{without_indices(key_path(key))}]]"
    if get_origin(annotation) is list and isinstance(value, str):
        return "; put it in brackets"
    return ""


def key_path(key: Key) -> Path:
    return tuple(key.name.split("."))


def _reads_as(text: str, annotation: Any) -> bool:
    if annotation is bool:
        return text in ("true", "false")
    try:
        annotation(text)
    except ValueError:
        return False
    return True
