"""Overrides of the command line: `key.path=value`, the value in TOML."""

import tomllib
from dataclasses import dataclass
from typing import Any

from surefoot.config.keys import Path, dotted, find_key
from surefoot.config.suggest import unknown_key
from surefoot.types.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Override:
    text: str
    path: Path
    value: Any


def parse_override(text: str) -> Override:
    """A word that is not TOML is a string; numbers, booleans, dates, arrays and tables are what TOML says they are.

    >>> parse_override("algo.estimator=rloo").value, parse_override("optim.lr=1e-5").value
    ('rloo', 1e-05)
    """
    name, equals, value = text.partition("=")
    if not equals or not value.strip():
        raise ConfigError(f"override {text}: expected key.path=value")
    path = _path(name.strip(), text)
    if find_key(path) is None:
        raise ConfigError(f"override {text}: {unknown_key(path)}")
    return Override(text, path, _value(value.strip(), text))


def repeated(overrides: list[Override]) -> list[str]:
    """Overrides that undo another: the same place, or one inside the other, given twice."""
    problems = []
    for index, later in enumerate(overrides):
        for earlier in overrides[:index]:
            short, long = sorted((earlier.path, later.path), key=len)
            if long[: len(short)] == short:
                problems.append(f"override {later.text}: {dotted(short)} is also set by override {earlier.text}")
    return problems


def apply_override(tree: dict[str, Any], override: Override) -> None:
    """Sets the value in `tree`, making tables on the way; an index must exist."""
    node: Any = tree
    *outer, last = override.path
    for done, part in enumerate(override.path, start=1):
        if not _can_hold(node, part):
            raise ConfigError(f"override {override.text}: there is no {dotted(override.path[:done])}")
        if done <= len(outer):
            node = node.setdefault(part, {}) if isinstance(node, dict) else node[part]
    node[last] = override.value


def _can_hold(node: Any, part: str | int) -> bool:
    return isinstance(node, dict) or (isinstance(node, list) and isinstance(part, int) and part < len(node))


def _path(name: str, text: str) -> Path:
    try:
        node: Any = tomllib.loads(f"{name} = 0")
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"override {text}: {name!r} is not a key") from error
    path: list[str | int] = []
    while isinstance(node, dict):
        part, node = next(iter(node.items()))
        key = find_key(tuple(path)) if path else None
        in_list = key is not None and key.is_list and isinstance(path[-1], str)
        if in_list and not (part.isascii() and part.isdigit()):
            raise ConfigError(f"override {text}: {dotted(tuple(path))} is a list; name its item, as in .0.{part}")
        path.append(int(part) if in_list else part)
    return tuple(path)


def _value(value: str, text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError as error:
        if value[0] in "[{\"'":
            raise ConfigError(f"override {text}: the value is not TOML: {error}") from error
        return value
    return parsed["value"] if list(parsed) == ["value"] else value
