"""The reward of a response: a weighted sum of named parts, each a built-in or the user's function."""

import asyncio
import copy
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsFloat

import numpy as np

from surefoot.config.schema import RewardConfig
from surefoot.envs import rewards
from surefoot.envs.hooks import check_call, load_function
from surefoot.envs.rewards.extract import get_extractor
from surefoot.types.errors import ConfigError, DataError, RewardError
from surefoot.types.rollout import Prompt

PARAMETERS = ("prompt", "response", "label", "metadata")  # of every reward function, by position
SHOWN_CHARACTERS = 500
SHOWN = 20  # unusable prompts spelt out; the rest are counted


@dataclass(frozen=True, slots=True)
class Part:
    """One reward function with its options. `check` raises `RewardError` for labels that no response can match."""

    name: str
    function: Callable[..., Any]
    weight: float
    params: Mapping[str, Any]
    check: Callable[..., None] | None
    timeout: float  # seconds; of an async function

    async def score(self, text: str, response: str, prompt: Prompt) -> float:
        """The part's reward, finite. Raises `RewardError` naming the part; a cancellation passes through."""
        payload = prompt.payload
        try:
            # Copies: what a function does to its arguments must not reach the next epoch.
            label, metadata = copy.deepcopy((payload["label"], payload["metadata"]))
            value = self.function(text, response, label, metadata, **self.params)
            if inspect.isawaitable(value):
                value = await asyncio.wait_for(value, self.timeout)
        except TimeoutError as error:
            raise RewardError(f"{self.name} gave no reward within {self.timeout:g} s") from error
        except RewardError as error:
            raise RewardError(f"{self.name}: {error}") from error
        except (Exception, SystemExit) as error:  # answer checkers built on argparse exit
            raise RewardError(f"{self.name} raised {type(error).__name__}: {plain(error)}") from error
        return _number(value, self.name)


@dataclass(frozen=True, slots=True)
class Rubric:
    parts: tuple[Part, ...]

    @property
    def full_marks(self) -> float:
        """The reward of a response that every part scores 1: what `accuracy` counts."""
        return sum(part.weight for part in self.parts if part.weight > 0)

    @classmethod
    def from_config(cls, configs: Sequence[RewardConfig], *, timeout: float) -> "Rubric":
        """The rubric of `[[env.rewards]]`; a part is called by its built-in's name or its function's path.

        Raises `ConfigError` for no rewards, two of one name, a weight that is not finite, and a table that sets both
        or neither of name and function; `HookError` for functions that are missing or do not take the options.
        """
        if not configs:
            raise ConfigError("env.rewards is empty: every reward would be 0")
        parts = tuple(_part(f"env.rewards.{number}", config, timeout) for number, config in enumerate(configs))
        names = [part.name for part in parts]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise ConfigError(f"env.rewards.{number}: there are two rewards named {name!r}")
        return cls(parts)

    async def score(self, prompt: Prompt, response: str) -> tuple[float, dict[str, float]]:
        """(weighted sum, parts without their weights). Functions see the last user message as the prompt's text.

        A function that is not async runs in the event loop's thread. Booleans count as 0 and 1.
        Raises `RewardError` where a part raises, or returns what is no finite number.
        """
        text = prompt_text(prompt)
        parts = {part.name: await part.score(text, response, prompt) for part in self.parts}
        total = sum(part.weight * parts[part.name] for part in self.parts)
        if not math.isfinite(total):
            raise RewardError(f"the weighted sum of {parts} is {total}")
        return float(total), parts

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
                return f"prompt {prompt.id}: {part.name}: {error}"
        return ""


def plain(error: BaseException) -> str:
    """The error's text as every file can hold it, and not longer than a line of a table should be."""
    return str(error).encode("utf8", "replace").decode()[:SHOWN_CHARACTERS]


def prompt_text(prompt: Prompt) -> str:
    """The last user message's content. Raises `RewardError` where there is none."""
    texts = [message.content for message in prompt.messages if message.role == "user"]
    if not texts:
        raise RewardError(f"prompt {prompt.id} has no user message")
    return texts[-1]


def _part(key: str, config: RewardConfig, timeout: float) -> Part:
    if bool(config.name) == bool(config.function):
        raise ConfigError(f"{key}: set one of name and function, not {'both' if config.name else 'neither'}")
    if not math.isfinite(config.weight):
        raise ConfigError(f"{key}.weight = {config.weight} is not finite")
    if config.function:
        function = load_function(config.function, PARAMETERS, keywords=tuple(config.params))
        return Part(config.function, function, config.weight, config.params, None, timeout)
    builtin = rewards.find(config.name)
    check_call(builtin.score, config.name, PARAMETERS, tuple(config.params))
    if "extract" in config.params:  # misspelt, it would make every sample of the run invalid
        get_extractor(config.params["extract"])
    return Part(config.name, builtin.score, config.weight, config.params, builtin.check, timeout)


def _number(value: Any, name: str) -> float:
    """A scalar of any library as a finite float."""
    text_or_complex = isinstance(value, str | bytes | complex | np.complexfloating)
    if text_or_complex or not isinstance(value, SupportsFloat) or np.ndim(value) != 0:  # type: ignore[arg-type]
        raise RewardError(f"{name} returned {value!r} of type {type(value).__name__}, not a number")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise RewardError(f"{name} returned {value!r}, not a number: {error}") from error
    if not math.isfinite(number):
        raise RewardError(f"{name} returned {number}")
    return number
