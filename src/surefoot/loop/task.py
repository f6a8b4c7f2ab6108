"""What a run asks and how it grades: data and rewards, checked before any model is loaded."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from surefoot.config.schema import RunConfig
from surefoot.data.source import load_prompts
from surefoot.data.stream import PromptStream
from surefoot.envs.rubric import Rubric
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
class Task:
    rubric: Rubric
    prompts: tuple[Prompt, ...]  # of training; none where the rollouts are saved or fake
    stream: Source | None  # None where the rollouts are fake
    eval_prompts: tuple[list[Prompt], ...]
    eval_rubrics: tuple[Rubric, ...]
    notes: tuple[Note, ...]


def build_task(config: RunConfig) -> Task:
    rubric = Rubric.from_config(config.env.rewards, timeout=config.env.timeout)
    eval_rubrics = tuple(
        Rubric.from_config(s.rewards, timeout=config.env.timeout) if s.rewards else rubric for s in config.eval.sets
    )
    eval_prompts = tuple(load_prompts(eval_set) for eval_set in config.eval.sets)
    for eval_rubric, held_out in zip(eval_rubrics, eval_prompts, strict=True):
        eval_rubric.check(held_out)
    prompts: list[Prompt] = []
    stream: Source | None = None
    if config.debug.mode == "train_only":
        stream = SavedRollouts(Path(config.debug.rollouts))
    elif config.debug.mode != "fake_data":
        prompts = load_prompts(config.data)
        rubric.check(prompts)
        stream = PromptStream(
            prompts,
            seed=derive_seed(config.loop.seed, "order"),
            shuffle=config.data.shuffle,
            epochs=config.data.epochs,
        )
    return Task(rubric, tuple(prompts), stream, eval_prompts, eval_rubrics, ())


def refuse_thin_data(prompts: Sequence[Prompt], wanted: int, problem_of: Callable[[Prompt], str]) -> None:
    """Raise `DataError` for prompts that leave no full batch of `wanted` once the unusable ones are dropped.

    `problem_of`: why a prompt cannot be sampled from, "" where it can. Looks no further than the first full batch.
    """
    kept, reasons = 0, Counter[str]()
    for prompt in prompts:
        problem = problem_of(prompt)
        reasons[problem.partition(":")[0]] += bool(problem)
        kept += not problem
        if kept == wanted:
            return
    lost = "".join(f", {count} {reason}" for reason, count in reasons.items() if count)
    raise DataError(
        f"data: of {len(prompts)} prompts {kept} are usable{lost}: no full batch of rollout.prompts_per_step = {wanted}"
    )
