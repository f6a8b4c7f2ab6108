"""What a run asks and how it grades: data and rewards, checked before any model is loaded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from surefoot.config.schema import EvalSetConfig, RewardConfig, RunConfig
from surefoot.data.mix import Share
from surefoot.data.source import LoadedPrompts, load_data
from surefoot.data.stream import PromptStream
from surefoot.envs.rubric import Rubric
from surefoot.envs.workers.pool import WorkerPool
from surefoot.loop.saved import SavedRollouts
from surefoot.loop.seeds import derive_seed
from surefoot.types.errors import DataError
from surefoot.types.rollout import Draw, Prompt


class Source(Protocol):
    """Where prompts come from. `cursor`, the number of draws so far, is its whole state."""

    @property
    def identity(self) -> str: ...

    @property
    def cursor(self) -> int: ...

    @property
    def total(self) -> int | None: ...

    def seek(self, cursor: int) -> None: ...

    def draw(self, count: int) -> list[Draw]: ...


@dataclass(frozen=True, slots=True)
class Note:
    """Something the user should know; `kind` is the ledger's event."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class EvalTask:
    config: EvalSetConfig
    prompts: tuple[Prompt, ...]
    rubric: Rubric


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    rubric: Rubric
    prompts: tuple[Prompt, ...]  # of training; none where it is not loaded, or its rollouts are saved or fake
    sources: tuple[Share, ...]  # what they are mixed of
    evals: tuple[EvalTask, ...]
    notes: tuple[Note, ...]


def build_task(config: RunConfig, pool: WorkerPool, *, training: bool = True) -> Task:
    """`pool`: computes the rewards. `training`: off where only the evaluation sets are wanted."""
    rubric = build_rubric(config, config.env.rewards, pool, "env.rewards")
    held_out = [load_data(section) for section in config.eval.sets]
    asked = training and config.debug.mode in ("off", "rollout_only")
    own = load_data(config.data) if asked else LoadedPrompts((), (), ())
    rubrics = [
        build_rubric(config, section.rewards, pool, f"eval.sets.{index}.rewards") if section.rewards else rubric
        for index, section in enumerate(config.eval.sets)
    ]
    for loaded, grader in zip([*held_out, own], [*rubrics, rubric], strict=True):
        grader.check(loaded.prompts)
    evals = zip(config.eval.sets, held_out, rubrics, strict=True)
    return Task(
        rubric=rubric,
        prompts=own.prompts,
        sources=own.sources,
        evals=tuple(EvalTask(section, loaded.prompts, grader) for section, loaded, grader in evals),
        notes=tuple(note for loaded in (*held_out, own) for note in bad_row_notes(loaded)),
    )


def build_rubric(config: RunConfig, rewards: Sequence[RewardConfig], pool: WorkerPool, section: str) -> Rubric:
    return Rubric.from_config(rewards, timeout=config.env.timeout, pool=pool, section=section)


def bad_row_notes(loaded: LoadedPrompts) -> list[Note]:
    """What `bad_rows = "skip"` left out, with every reason."""
    if not loaded.skipped:
        return []
    rows = len(loaded.prompts) + len(loaded.skipped)
    reasons = "\n".join(loaded.skipped)
    return [Note("bad_rows", f"{len(loaded.skipped)} of {rows} rows are bad and were skipped:\n{reasons}")]


def build_stream(config: RunConfig, task: Task) -> Source | None:
    """None where the rollouts are fake: their prompts come with them, and need the model's vocabulary."""
    if config.debug.mode == "fake_data":
        return None
    if config.debug.mode == "train_only":
        return SavedRollouts(Path(config.debug.rollouts))
    return PromptStream(
        task.prompts,
        seed=derive_seed(config.loop.seed, "order"),
        shuffle=config.data.shuffle,
        epochs=config.data.epochs,
        sources=task.sources,
    )


def refuse_thin_data(prompts: Sequence[Prompt], wanted: int, problem_of: Callable[[Prompt], str]) -> None:
    """Raise `DataError` for prompts that leave no full batch of `wanted` once the unusable ones are dropped.

    `problem_of`: why a prompt cannot be sampled from, "" where it can. Looks no further than the first full batch.
    """
    kept, lost = 0, dict[str, list[str]]()
    for prompt in prompts:
        problem = problem_of(prompt)
        if problem:
            lost.setdefault(problem.partition(":")[0], []).append(f"prompt {prompt.id}: {problem}")
        kept += not problem
        if kept == wanted:
            return
    told = "".join(f"\n{len(texts)} of them like {texts[0]}" for texts in lost.values())
    raise DataError(
        f"data: {kept} of {len(prompts)} prompts can be used: no full batch of "
        f"rollout.prompts_per_step = {wanted}{told}"
    )
