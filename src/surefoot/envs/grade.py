"""One call of a reward function: what it is asked, and a finite number out of it or a reason why not.

Used in the run's own process and in the workers', so it imports little.
"""

import asyncio
import inspect
import math
import numbers
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from surefoot.types.errors import RewardError

PARAMETERS = ("prompt", "response", "label", "metadata")  # of every reward function, by position
SHOWN_CHARACTERS = 500  # of an error
KEPT_CHARACTERS = 10_000  # of an answer


@dataclass(frozen=True, slots=True)
class Question:
    """What a reward function is asked. `text` is the last user message."""

    text: str
    response: str
    label: Any
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Mark:
    value: float  # finite
    answer: str | None  # the text that the extraction accepted


@dataclass(frozen=True, slots=True)
class Grader:
    """A reward function under the name that its errors carry. `timeout` in seconds, of an async function."""

    name: str
    function: Callable[..., Any]
    answer: Callable[..., str | None] | None
    params: Mapping[str, Any]
    timeout: float

    def call(self, question: Question) -> Any:
        """What the function returns, which may have to be awaited. Raises `RewardError`."""
        with self._blamed():
            return self.function(question.text, question.response, question.label, question.metadata, **self.params)

    async def wait(self, value: Awaitable[Any]) -> Any:
        """What comes of it within the limit. Raises `RewardError`; a cancellation passes through."""
        try:
            async with asyncio.timeout(self.timeout):
                with self._blamed():  # inside, so that the function's own TimeoutError is not taken for the limit's
                    return await value
        except TimeoutError as error:
            raise RewardError(late(self.name, self.timeout)) from error

    def mark(self, question: Question, value: Any) -> Mark:
        """Raises `RewardError` for a value that is no finite number."""
        number = to_number(value, self.name)
        if self.answer is None:
            return Mark(number, None)
        with self._blamed():
            found = self.answer(question.response, **self.params)
        return Mark(number, None if found is None else plain(found, KEPT_CHARACTERS))

    async def grade(self, question: Question) -> Mark:
        """All of it, in the running event loop."""
        value = self.call(question)
        if inspect.isawaitable(value):
            value = await self.wait(value)
        return self.mark(question, value)

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        try:
            yield
        except RewardError as error:
            raise RewardError(f"{self.name}: {error}") from error
        except (Exception, SystemExit) as error:  # answer checkers built on argparse exit
            raise RewardError(f"{self.name} raised {type(error).__name__}: {plain(error)}") from error


def late(name: str, seconds: float) -> str:
    return f"{name} gave no reward within {seconds:g} s"


def plain(text: object, characters: int = SHOWN_CHARACTERS) -> str:
    """As every file can hold it, and not longer than a line of a table should be."""
    return str(text)[:characters].encode("utf8", "replace").decode()


def to_number(value: Any, name: str) -> float:
    """A scalar of any library as a finite float. Raises `RewardError` naming the reward."""
    is_complex = isinstance(value, numbers.Complex) and not isinstance(value, numbers.Real)
    has_axes = hasattr(value, "shape") and len(value.shape) > 0  # an array of one element converts
    if isinstance(value, str | bytes) or is_complex or has_axes or not hasattr(type(value), "__float__"):
        raise RewardError(f"{name} returned {plain(repr(value))} of type {type(value).__name__}, not a number")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise RewardError(f"{name} returned {plain(repr(value))}, not a number: {plain(error)}") from error
    if not math.isfinite(number):
        raise RewardError(f"{name} returned {number}")
    return number
