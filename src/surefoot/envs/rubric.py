"""The reward of a response: a weighted sum of named parts, each a built-in or the user's function."""

import asyncio
import copy
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from surefoot.config.schema import RewardConfig
from surefoot.envs import rewards
from surefoot.envs.grade import PARAMETERS, Grader, Mark, Question
from surefoot.envs.hooks import check_call, is_async, load_function
from surefoot.envs.rewards.extract import get_extractor
from surefoot.envs.workers.call import Call, Target
from surefoot.envs.workers.pool import WorkerPool
from surefoot.types.errors import ConfigError, DataError, RewardError
from surefoot.types.rollout import Prompt, Score

SHOWN = 20  # unusable prompts spelt out; the rest are counted


@dataclass(frozen=True, slots=True)
class Part:
    """One reward with its options. `check` raises `RewardError` for labels that no response can match."""

    name: str
    weight: float
    params: Mapping[str, Any]
    mark: Callable[[Question], Awaitable[Mark]]
    check: Callable[..., None] | None


@dataclass(frozen=True, slots=True)
class Rubric:
    parts: tuple[Part, ...]

    @property
    def full_marks(self) -> float:
        """The reward of a response that every part scores 1: what `accuracy` counts."""
        return sum(part.weight for part in self.parts if part.weight > 0)

    @classmethod
    def from_config(
        cls,
        configs: Sequence[RewardConfig],
        *,
        timeout: float,
        pool: WorkerPool | None = None,
        section: str = "env.rewards",
    ) -> "Rubric":
        """The rubric of `[[env.rewards]]`; a part is called as `part` says, else by its name or its function's path.

        `timeout`: seconds, for parts that set none of their own. `pool`: where users' functions and slow built-ins
        run, shared between rubrics; None is one of its own, which ends with the process.
        Raises `ConfigError` for no rewards, two of one name, a weight that is not finite, and a table that sets both
        or neither of name and function; `HookError` for functions that are missing or do not take the options.
        """
        if not configs:
            raise ConfigError(f"{section} is empty: every reward would be 0")
        pool = pool or WorkerPool()
        parts = tuple(_part(f"{section}.{number}", config, timeout, pool) for number, config in enumerate(configs))
        names = [part.name for part in parts]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise ConfigError(f"{section}.{number}: there are two rewards named {name!r}")
        return cls(parts)

    async def score(self, prompt: Prompt, response: str) -> Score:
        """The weighted sum and what it is made of, all parts at once.

        Booleans count as 0 and 1. Raises `RewardError` where a part raises, is late, or returns what is no finite
        number: the first such part's, once all have ended.
        """
        question = Question(prompt_text(prompt), response, prompt.payload["label"], prompt.payload["metadata"])
        marks = await asyncio.gather(*(part.mark(question) for part in self.parts), return_exceptions=True)
        parts, answers = dict[str, float](), dict[str, str]()
        for part, mark in zip(self.parts, marks, strict=True):
            if isinstance(mark, BaseException):
                raise mark
            parts[part.name] = mark.value
            if mark.answer is not None:
                answers[part.name] = mark.answer
        total = sum(part.weight * parts[part.name] for part in self.parts)
        if not math.isfinite(total):
            raise RewardError(f"the weighted sum of {parts} is {total}")
        return Score(float(total), parts, answers)

    def check(self, prompts: Sequence[Prompt]) -> None:
        """Raise one `DataError` for all prompts that a built-in reward could never score; for use before a run."""
        problems = [problem for prompt in prompts if (problem := self._problem(prompt))]
        if not problems:
            return
        rest = len(problems) - SHOWN
        more = [f"and {rest} more prompts, {len(problems)} of {len(prompts)} in all"] if rest > 0 else []
        raise DataError("\n".join(problems[:SHOWN] + more))

    def _problem(self, prompt: Prompt) -> str:
        for part in self.parts:
            if part.check is None:
                continue
            try:
                part.check(prompt.payload["label"], prompt.payload["metadata"], **part.params)
            except RewardError as error:
                origin = prompt.payload.get("origin")
                where = f" ({origin})" if origin else ""
                return f"prompt {prompt.id}{where}: {part.name}: {error}"
        return ""


def prompt_text(prompt: Prompt) -> str:
    """The last user message's content. Raises `RewardError` where there is none."""
    texts = [message.content for message in prompt.messages if message.role == "user"]
    if not texts:
        raise RewardError(f"prompt {prompt.id} has no user message")
    return texts[-1]


def _part(key: str, config: RewardConfig, timeout: float, pool: WorkerPool) -> Part:
    if bool(config.name) == bool(config.function):
        raise ConfigError(f"{key}: set one of name and function, not {'both' if config.name else 'neither'}")
    if not math.isfinite(config.weight):
        raise ConfigError(f"{key}.weight = {config.weight} is not finite")
    name, params = config.part or config.name or config.function, config.params
    if config.function:
        function = load_function(config.function, PARAMETERS, keywords=tuple(params))
        target = Target("function", config.function, is_async(function))
        mark = partial(_mark_in_worker, pool, target, name, params, config.timeout or timeout)
        return Part(name, config.weight, params, mark, None)
    builtin = rewards.find(config.name)
    check_call(builtin.score, config.name, PARAMETERS, tuple(params))
    if "extract" in params:  # misspelt, it would make every sample of the run invalid
        get_extractor(params["extract"])
    seconds = config.timeout or builtin.timeout or timeout
    if builtin.where == "worker":
        target = Target("builtin", config.name, is_async(builtin.score))
        pool.expect(target)
        mark = partial(_mark_in_worker, pool, target, name, params, seconds)
    else:
        mark = partial(mark_inline, Grader(name, builtin.score, builtin.answer, params, seconds))
    return Part(name, config.weight, params, mark, builtin.check)


async def mark_inline(grader: Grader, question: Question) -> Mark:
    """In the event loop's thread, on copies: what a function does to its arguments must not reach the next epoch."""
    label, metadata = copy.deepcopy((question.label, question.metadata))
    return await grader.grade(replace(question, label=label, metadata=metadata))


async def _mark_in_worker(
    pool: WorkerPool, target: Target, name: str, params: Mapping[str, Any], timeout: float, question: Question
) -> Mark:
    return await pool.mark(Call(name, target, params, timeout, question))
