"""The keys the schema knows, by dotted path. Tables of a list ([[env.rewards]]) are named without their index."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from surefoot.config.schema import RunConfig, Section

Path = tuple[str | int, ...]
"""A place in a run file: names, and indices of lists, e.g. ("env", "rewards", 0, "name")."""


@dataclass(frozen=True, slots=True)
class Key:
    """`table` is the section class behind a [table] or [[table]], None for a value."""

    name: str
    field: FieldInfo
    table: type[Section] | None

    @property
    def leaf(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def is_list(self) -> bool:
        return get_origin(self.field.annotation) is list

    @property
    def section(self) -> str:
        return self.name.rpartition(".")[0]


def dotted(path: Path) -> str:
    """A place as a run file's overrides write it.

    >>> dotted(("env", "rewards", 0, "name"))
    'env.rewards.0.name'
    """
    return ".".join(str(part) for part in path)


def without_indices(path: Path) -> str:
    """A place's key, whichever item of a list it is in.

    >>> without_indices(("env", "rewards", 0, "name"))
    'env.rewards.name'
    """
    return ".".join(part for part in path if isinstance(part, str))


@cache
def all_keys() -> dict[str, Key]:
    """Every valid key, tables included, in the schema's order."""
    return {key.name: key for key in _walk(RunConfig, "")}


def find_key(path: Path) -> Key | None:
    """The key at a place; what lies inside a free table (`data.params.x`) is that table's key."""
    names = [part for part in path if isinstance(part, str)]
    keys = all_keys()
    for end in range(1, len(names) + 1):
        key = keys.get(".".join(names[:end]))
        if key is None or (end < len(names) and key.table is None and not _is_free(key.field)):
            return None
        if _is_free(key.field) or end == len(names):
            return key
    return None


def expected(field: FieldInfo) -> str:
    """The values a field takes, in TOML's words: 'float > 0', 'one of "grpo", "rloo"', 'array of strings'."""
    return describe_type(field.annotation) + _bounds(field.metadata)


def describe_type(annotation: Any) -> str:
    origin = get_origin(annotation)
    if origin is Literal:
        return "one of " + ", ".join(f'"{choice}"' for choice in get_args(annotation))
    if origin is list:
        return f"array of {describe_type(get_args(annotation)[0])}s"
    if origin is dict or _is_section(annotation):
        return "table"
    return {int: "integer", float: "float", bool: "boolean (true or false)", str: "string"}[annotation]


def _bounds(metadata: list[Any]) -> str:
    """The limits of a number, in words.

    >>> _bounds([Ge(0), Le(1)])
    ' >= 0 and <= 1'
    """
    signs: list[tuple[type, str, str]] = [(Gt, ">", "gt"), (Ge, ">=", "ge"), (Lt, "<", "lt"), (Le, "<=", "le")]
    bounds = [f"{sign} {getattr(m, attribute)}" for kind, sign, attribute in signs for m in metadata if type(m) is kind]
    return " " + " and ".join(bounds) if bounds else ""


def _walk(section: type[Section], prefix: str) -> Iterator[Key]:
    for name, field in section.model_fields.items():
        table = _table(field.annotation)
        yield Key(prefix + name, field, table)
        if table is not None:
            yield from _walk(table, f"{prefix}{name}.")


def _table(annotation: Any) -> type[Section] | None:
    item = get_args(annotation)[0] if get_origin(annotation) is list else annotation
    return item if _is_section(item) else None


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Section)


def _is_free(field: FieldInfo) -> bool:
    return get_origin(field.annotation) is dict
