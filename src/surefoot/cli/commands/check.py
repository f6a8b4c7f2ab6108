"""surefoot check: the resolved configuration, every problem, and what memory the run will need."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from surefoot.cli.arguments import Overrides, RunFile

if TYPE_CHECKING:
    from surefoot.config.schema import DataConfig, RunConfig

T = TypeVar("T")


def check_command(
    run_file: RunFile,
    overrides: Overrides = None,
    ranks: Annotated[int, typer.Option(min=1, help="Ranks the model is sharded over.")] = 1,
) -> None:
    """Check RUN.toml without running it. Exits with 1 if there is any problem."""
    from surefoot.config.dump import dump_config
    from surefoot.config.effects import find_warnings, given_keys
    from surefoot.config.load import resolve_config

    resolution = resolve_config(run_file, *(overrides or ()))
    problems = list(resolution.problems)
    if resolution.config is not None:
        print(dump_config(resolution.config))
        problems += _report_memory(resolution.config, ranks)
        problems += _task_problems(resolution.config)
        for warning in find_warnings(resolution.config, given_keys(resolution.config)):
            print(f"warning: {warning}", file=sys.stderr)
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    if problems:
        raise typer.Exit(1)
    print("no problems")


def _task_problems(config: "RunConfig") -> list[str]:
    """What is wrong with rewards and data, as a run would say it before it loads a model.

    A section that contradicts itself was told so already: it is not asked again in other words.
    """
    from surefoot.config.check import cross_field_problems
    from surefoot.data.source import LoadedPrompts, load_data
    from surefoot.envs.rubric import Rubric
    from surefoot.observe.trackers.fanout import require_installed
    from surefoot.types.errors import UsageError

    told = {problem.keys[0][0] for problem in cross_field_problems(config)}
    problems: list[str] = []

    def attempt(work: Callable[[], T]) -> T | None:
        try:
            return work()
        except UsageError as error:
            problems.append(str(error))
            return None

    def load(section: "DataConfig", name: str) -> LoadedPrompts | None:
        loaded = attempt(lambda: load_data(section)) if name not in told else None
        for row in loaded.skipped if loaded else ():
            print(f"warning: skipped: {row}", file=sys.stderr)
        return loaded

    samples = config.debug.mode in ("off", "rollout_only")  # else [data] is not read
    own = [(config.env.rewards, load(config.data, "data") if samples else None)]
    sets = [(s.rewards or config.env.rewards, load(s, "eval")) for s in config.eval.sets]
    for rewards, loaded in [*own, *sets] if "env" not in told else ():
        rubric = attempt(partial(Rubric.from_config, rewards, timeout=config.env.timeout))
        if rubric and loaded:
            attempt(partial(rubric.check, loaded.prompts))
    attempt(lambda: require_installed(config.observe.trackers))
    return list(dict.fromkeys(problems))


def _report_memory(config: "RunConfig", ranks: int) -> list[str]:
    """Prints the estimate, or why there is none; returns the problems of the model's folder."""
    from surefoot.cli.estimate import memory_items, read_shape, show_bytes
    from surefoot.types.errors import ModelError

    folder = Path(config.model.path)
    if not folder.is_dir():
        return [f"model.path: {config.model.path}: there is no such folder"]
    try:
        items = memory_items(read_shape(folder), config, ranks)
    except ModelError as error:
        return [f"model.path: {error}"]
    print(f"memory of each rank, estimated ({ranks} rank{'s' if ranks > 1 else ''}):")
    for item in items:
        print(f"  {item.name:<16}{show_bytes(item.bytes):>11}   {item.assumption}")
    print(f"  {'together':<16}{show_bytes(sum(item.bytes for item in items)):>11}   fragmentation not counted\n")
    return []
