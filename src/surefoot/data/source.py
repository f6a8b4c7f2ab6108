"""Prompts of a file, a folder or a generator, as the config names them; what is bad is reported, never lost."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from surefoot.config.check import SLICE
from surefoot.config.schema import DataConfig, EvalSetConfig, TrainDataConfig
from surefoot.data.columns import Columns
from surefoot.data.gym import gym_prompts
from surefoot.data.hf import folder_rows
from surefoot.data.jsonl import jsonl_rows
from surefoot.data.message import check_template
from surefoot.data.mix import Share
from surefoot.data.parquet import parquet_rows
from surefoot.data.row import RawRow
from surefoot.types.errors import ConfigError, DataError, UsageError
from surefoot.types.rollout import Prompt

SHOWN = 20  # problems spelt out; the rest are counted


@dataclass(frozen=True, slots=True, eq=False)
class LoadedPrompts:
    """The prompts of a section. `skipped`: the bad rows that `bad_rows = "skip"` left out, "file:line: reason" each."""

    prompts: tuple[Prompt, ...]
    skipped: tuple[str, ...]
    sources: tuple[Share, ...]  # what `prompts` are made of, in their order


def load_data(config: DataConfig) -> LoadedPrompts:
    """The prompts of a `[data]` section with its `[[data.mix]]`, or of an evaluation set; never none.

    Raises `ConfigError` for a value that the source cannot use, `DataError` for data that cannot be read; of several
    sources every one that fails is in it.
    """
    if isinstance(config, EvalSetConfig):
        return _load_section(f"eval.sets {config.name!r}", config, 0.0)
    if not isinstance(config, TrainDataConfig) or not config.mix:
        return _load_section("data", config, 0.0)
    loaded, problems = list[LoadedPrompts](), list[str]()
    for index, source in enumerate(config.mix):
        try:
            loaded.append(_load_section(f"data.mix.{index}", source, source.weight))
        except UsageError as error:
            problems.append(str(error))
    if problems:
        raise DataError("\n".join(problems))
    return LoadedPrompts(
        prompts=tuple(prompt for part in loaded for prompt in part.prompts),
        skipped=tuple(problem for part in loaded for problem in part.skipped),
        sources=tuple(share for part in loaded for share in part.sources),
    )


def read_prompts(
    path: str | Path,
    *,
    source: Literal["", "jsonl", "parquet", "datasets"] = "",
    split: str = "",
    rows: str = "",
    input_key: str = "prompt",
    label_key: str = "label",
    metadata_key: str = "",
    id_key: str = "id",
    system: str = "",
    template: str = "{prompt}",
    env: str = "",
) -> list[Prompt]:
    """The prompts of a file or folder, in its order. `source` "": datasets for a folder, parquet by suffix, else jsonl.

    The other arguments are the keys of `[data]` (docs/data.md). Labels keep their type and value, null included;
    `payload` is {"label", "metadata", "origin"}, the last one as in "prompts.jsonl:12".
    Raises one `DataError` for all bad rows, with file, line or row, and reason; no row is dropped.
    """
    path = Path(path)
    config = DataConfig(
        source=source or _source_of(path),
        path=str(path),
        split=split,
        rows=rows,
        input_key=input_key,
        label_key=label_key,
        metadata_key=metadata_key,
        id_key=id_key,
        system=system,
        template=template,
    )
    return _read(config, env)[0]


def _source_of(path: Path) -> Literal["jsonl", "parquet", "datasets"]:
    if path.is_dir():
        return "datasets"
    return "parquet" if path.suffix == ".parquet" else "jsonl"


def _load_section(section: str, config: DataConfig, weight: float) -> LoadedPrompts:
    try:
        prompts, skipped = _load(config)
    except ConfigError as error:
        raise ConfigError(f"{section}: {error}") from error
    return LoadedPrompts(tuple(prompts), tuple(skipped), (Share(len(prompts), weight),))


def _load(config: DataConfig) -> tuple[list[Prompt], list[str]]:
    if config.source != "reasoning_gym":
        return _read(config, env="")
    prompts = gym_prompts(
        config.task,
        size=config.size,
        seed=config.seed,
        params=config.params,
        system=config.system,
        template=config.template,
    )
    return prompts, []


def _read(config: DataConfig, env: str) -> tuple[list[Prompt], list[str]]:
    """(prompts, bad rows that were skipped); at least one prompt."""
    check_template(config.template)
    if not config.path:
        raise ConfigError(f'path is not set: source = "{config.source}" reads a file or folder')
    columns = Columns(
        config.input_key,
        config.label_key,
        config.metadata_key,
        config.id_key,
        config.system,
        config.template,
        env,
    )
    prompts, problems = _read_rows(_slice(_raw_rows(config, columns), config.rows), columns)
    if problems and config.bad_rows == "refuse":
        raise DataError("\n".join(_spell_out(problems)))
    if not prompts:
        found = sum(1 for _ in _raw_rows(config, columns))
        taken = f', of which rows = "{config.rows}" takes {len(problems)}' if config.rows else ""
        bad = ", all of them bad:" if problems else ""
        summary = f"{config.path}: no rows to use: it has {found}{taken}{bad}"
        raise DataError("\n".join([summary, *_spell_out(problems)]))
    return prompts, problems


def _raw_rows(config: DataConfig, columns: Columns) -> Iterator[RawRow]:
    path = Path(config.path)
    if config.source == "jsonl":
        return jsonl_rows(path)
    if config.source == "parquet":
        return parquet_rows(path, columns.choose)
    return folder_rows(path, config.split, columns.choose)


def _slice(raws: Iterator[RawRow], text: str) -> Iterable[RawRow]:
    """The rows that a Python slice takes. Rows outside it are not parsed: nothing in them matters."""
    if not text:
        return raws
    if not SLICE.fullmatch(text):
        raise ConfigError(f'rows = "{text}" is not a slice like ":1000", "1000:" or "::2"')
    bounds = [int(part) if part else None for part in text.split(":")]
    if any(bound is not None and bound < 0 for bound in bounds):
        return list(raws)[slice(*bounds)]
    return itertools.islice(raws, *bounds)


def _read_rows(raws: Iterable[RawRow], columns: Columns) -> tuple[list[Prompt], list[str]]:
    """(prompts of the good rows, "place: reason" of the bad ones). The second row of an id is a bad one."""
    prompts, problems = list[Prompt](), list[str]()
    named: dict[str, int] = {}
    for raw in raws:
        try:
            prompt = columns.read(raw)
            if prompt.id in named:
                where = "line" if raw.unit == ":" else "row"
                way_out = 'id_key = "" names rows by their place instead'
                raise DataError(f"its id {prompt.id!r} is that of {where} {named[prompt.id]} too; {way_out}")
        except DataError as error:
            problems.append(f"{raw.place}: {error}")
        else:
            named[prompt.id] = raw.number
            prompts.append(prompt)
    return prompts, problems


def _spell_out(problems: list[str]) -> list[str]:
    rest = len(problems) - SHOWN
    return problems[:SHOWN] + ([f"and {rest} more bad rows, {len(problems)} in all"] if rest > 0 else [])
