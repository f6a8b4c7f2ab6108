"""A run file and its overrides become a `RunConfig`, or one error with everything that is wrong."""

import copy
import tomllib
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from surefoot.config.check import Problem, cross_field_problems
from surefoot.config.explain import explain_error
from surefoot.config.keys import Path, find_key, without_indices
from surefoot.config.override import Override, apply_override, parse_override, repeated
from surefoot.config.scan import error_line, error_text, scan_text
from surefoot.config.schema import RunConfig
from surefoot.config.suggest import nearest_key
from surefoot.types.errors import ConfigError

OVERRIDE_RANK, NOWHERE_RANK = 2**31, 2**30  # problems are told in the order of the file, then overrides
STAND_INS = ("?", 1)  # for a required value that is missing or wrong, while the rest is checked


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a run file comes to. `config` is None where a key or a value is not valid in itself."""

    config: RunConfig | None
    problems: tuple[str, ...]


@dataclass(slots=True)
class Source:
    """The merged values, and for each place the line or the override that set it."""

    name: str
    tree: dict[str, Any] = field(default_factory=dict)
    origins: dict[Path, int | Override] = field(default_factory=dict)
    problems: list[tuple[int, str]] = field(default_factory=list)  # (rank to sort by, text)
    broken: bool = False  # part of the file could not be read, so what seems to be missing may not be
    set_aside: set[str] = field(default_factory=set)  # keys whose values are not the user's

    def origin(self, path: Path) -> int | Override | None:
        ends = range(len(path), 0, -1)
        return next((self.origins[path[:end]] for end in ends if path[:end] in self.origins), None)

    def add(self, path: Path, text: str) -> None:
        match self.origin(path):
            case int(line):
                self.problems.append((line, f"{self.name}:{line}: {text}"))
            case Override() as override:
                self.problems.append((OVERRIDE_RANK, f"override {override.text}: {text}"))
            case None:
                self.problems.append((NOWHERE_RANK, f"{self.name}: {text}"))


def load_config(path: str | FilePath, *overrides: str) -> RunConfig:
    """The configuration of a run file, with overrides in TOML ("optim.lr=1e-5").

    Raises ConfigError with every problem, a line each: unknown keys with the nearest valid one, wrong types,
    missing keys, duplicates, values that contradict one another. Each line names file and line, or the override.
    """
    resolution = resolve_config(path, *overrides)
    if resolution.config is None or resolution.problems:
        raise ConfigError("\n".join(resolution.problems))
    return resolution.config


def resolve_config(path: str | FilePath, *overrides: str) -> Resolution:
    """As `load_config`, but problems are returned; a file that cannot be read raises ConfigError."""
    source = read_source(FilePath(path))
    _override(source, overrides)
    config = _validate(source)
    valid = not source.problems
    if not source.broken:
        for problem in cross_field_problems(config):
            if not _is_echo(problem, source.set_aside):
                source.add(_place(source, problem), str(problem))
    told = [text for _, text in sorted(source.problems, key=lambda problem: problem[0])]
    return Resolution(config if valid else None, tuple(told))


def read_source(path: FilePath) -> Source:
    source = Source(str(path))
    try:
        text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}:{line}: not UTF-8") from error
    found = scan_text(text)
    source.origins = dict(found.lines)
    try:
        source.tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        source.tree = found.tree
        source.broken = found.broken or not found.problems
        problems = found.problems or [(error_line(error, text), error_text(error))]
        source.problems = [(line, f"{path}:{line}: {why}") for line, why in problems]
    return source


def _override(source: Source, texts: tuple[str, ...]) -> None:
    overrides: list[Override] = []
    for text in texts:
        try:
            override = parse_override(text)
            apply_override(source.tree, override)
        except ConfigError as error:
            source.problems.append((OVERRIDE_RANK, str(error)))
            source.set_aside |= _concerned(tuple(text.partition("=")[0].split(".")))
        else:
            overrides.append(override)
            length = len(override.path)
            source.origins = {p: o for p, o in source.origins.items() if p[:length] != override.path}
            source.origins[override.path] = override
    source.problems += [(OVERRIDE_RANK, text) for text in repeated(overrides)]


def _validate(source: Source) -> RunConfig:
    """The configuration, with bad values set aside and reported, so that the rest can be checked too."""
    tree = copy.deepcopy(source.tree)
    while True:
        try:
            return RunConfig.model_validate(tree)
        except ValidationError as invalid:
            errors = invalid.errors(include_url=False)
            told = [error for error in errors if not (source.broken and error["type"] == "missing")]
            for path, text in (line for error in told for line in explain_error(error)):
                source.add(path, text)
                source.set_aside |= _concerned(path)
            for path in sorted({_culprit(error["loc"]) for error in errors}, key=len, reverse=True):
                _set_aside(tree, path)


def _concerned(path: Path) -> set[str]:
    """The key at a place, or the one that was probably meant."""
    key = find_key(path) or nearest_key(path)
    return {without_indices(path)} | ({key.name} if key else set())


def _culprit(path: Path) -> Path:
    """A list with a bad item is set aside whole."""
    return path[:-1] if isinstance(path[-1], int) else path


def _set_aside(tree: dict[str, Any], path: Path) -> None:
    """Removes a bad value; what the schema requires gets a stand-in."""
    node: Any = tree
    *outer, last = path
    for part in outer:
        node = node[part]
    key = find_key(path)
    if key is None or not key.field.is_required():
        del node[last]
    elif key.table is None:
        node[last] = _stand_in(key.field)
    else:
        node[last] = {name: _stand_in(field) for name, field in key.table.model_fields.items() if field.is_required()}


def _stand_in(field: FieldInfo) -> Any:
    """A value that the schema takes: with one it refuses, the checking would never end."""
    return next(value for value in STAND_INS if _takes(field, value))


def _takes(field: FieldInfo, value: Any) -> bool:
    adapter: TypeAdapter[Any] = TypeAdapter(field.rebuild_annotation(), config=ConfigDict(strict=True))
    try:
        adapter.validate_python(value)
    except ValidationError:
        return False
    return True


def _is_echo(problem: Problem, set_aside: set[str]) -> bool:
    """Whether a problem may only follow from a value that was set aside."""
    return any(
        key == other or key.startswith(other + ".") or other.startswith(key + ".")
        for key in map(without_indices, problem.keys)
        for other in set_aside
    )


def _place(source: Source, problem: Problem) -> Path:
    """The first of a problem's keys that somebody set, else the first."""
    return next((key for key in problem.keys if key in source.origins), problem.keys[0])
