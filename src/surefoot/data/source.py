"""Prompts from a JSONL file, or from whichever source the config names."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefoot.config.schema import DataConfig, EvalSetConfig
from surefoot.config.suggest import nearest_choice
from surefoot.data.gym import gym_prompts
from surefoot.data.message import build_messages, check_template
from surefoot.data.row import parse_row
from surefoot.types.errors import ConfigError, DataError
from surefoot.types.rollout import Prompt

SHOWN = 20  # problems spelt out; the rest are counted
BOM = b"\xef\xbb\xbf"


def load_prompts(config: DataConfig) -> list[Prompt]:
    """The prompts of a `[data]` section, or of an evaluation set; never an empty list.

    Raises `ConfigError` for a value that the source cannot use, `DataError` for data that cannot be read.
    """
    section = f"eval.sets {config.name!r}" if isinstance(config, EvalSetConfig) else "data"
    try:
        return _load(config)
    except ConfigError as error:
        raise ConfigError(f"{section}: {error}") from error


def _load(config: DataConfig) -> list[Prompt]:
    if config.source == "reasoning_gym":
        return gym_prompts(
            config.task,
            size=config.size,
            seed=config.seed,
            params=config.params,
            system=config.system,
            template=config.template,
        )
    if not config.path:
        raise ConfigError('path is not set: source = "jsonl" reads a file')
    return read_prompts(
        config.path,
        input_key=config.input_key,
        label_key=config.label_key,
        metadata_key=config.metadata_key,
        limit=config.size,
        system=config.system,
        template=config.template,
    )


def read_prompts(
    path: str | Path,
    *,
    input_key: str = "prompt",
    label_key: str = "label",
    metadata_key: str = "",
    limit: int = 0,
    system: str = "",
    template: str = "{prompt}",
    env: str = "",
) -> list[Prompt]:
    """The rows of a JSONL file, in its order. Lines end at a line feed alone; blank lines are no rows.

    Labels keep their JSON type and value, null included; `payload` is {"label", "metadata"}. `limit`: only the first
    so many rows are read, good or bad; 0 = all. A prompt's id is the row's "id" (text or integer) or, without one,
    "<file stem>:<line>", with lines counted from 1 as an editor does.
    Raises one `DataError` for all bad rows, with file, line and reason; no row is dropped.
    """
    path = Path(path)
    if limit < 0:
        raise ConfigError(f"limit = {limit} is negative")
    check_template(template)
    columns = _Columns(input_key, label_key, metadata_key, system, template, env)
    prompts: list[Prompt] = []
    problems: list[str] = []
    for number, line in _rows(path):
        if limit and len(prompts) + len(problems) == limit:
            break
        try:
            prompts.append(columns.read(parse_row(line), f"{path.stem}:{number}"))
        except DataError as error:
            problems.append(f"{path}:{number}: {error}")
    if problems:
        raise DataError(_report(problems))
    if not prompts:
        raise DataError(f"{path}: no rows; {path.stat().st_size} bytes, all of them blank")
    return prompts


@dataclass(frozen=True, slots=True)
class _Columns:
    """What to take from a row."""

    input_key: str
    label_key: str
    metadata_key: str
    system: str
    template: str
    env: str

    def read(self, row: dict[str, Any], default_id: str) -> Prompt:
        messages = build_messages(_take(row, self.input_key), system=self.system, template=self.template)
        label = _take(row, self.label_key) if self.label_key else None
        metadata = _take(row, self.metadata_key) if self.metadata_key else {}
        if not isinstance(metadata, dict):
            raise DataError(f"{self.metadata_key!r} is not an object")
        row_id = _row_id(row["id"]) if "id" in row else default_id
        return Prompt(id=row_id, env=self.env, messages=messages, payload={"label": label, "metadata": metadata})


def _rows(path: Path) -> Iterator[tuple[int, bytes]]:
    """(line number from 1, line) of every line that is not blank."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                row = line.removeprefix(BOM) if number == 1 else line
                if row.strip():
                    yield number, row
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from error


def _take(row: dict[str, Any], key: str) -> Any:
    if key not in row:
        near = nearest_choice(key, list(row))
        raise DataError(f"no key {key!r}" + (f"; did you mean {near!r}?" if near else f"; it has {', '.join(row)}"))
    return row[key]


def _row_id(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise DataError(f"its id is {value!r}, not text or an integer")
    return str(value)


def _report(problems: list[str]) -> str:
    shown = problems[:SHOWN]
    if len(problems) > SHOWN:
        shown.append(f"and {len(problems) - SHOWN} more bad rows, {len(problems)} in all")
    return "\n".join(shown)
