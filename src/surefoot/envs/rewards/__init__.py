"""Built-in rewards by name. One file a reward, one line in the table."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from surefoot.config.nearest import nearest_choice
from surefoot.envs.rewards import dapo, deepscaler, exact_match, f1, gpqa, ifbench, math, reasoning_gym, remote
from surefoot.types.errors import HookError

__all__ = ["NAMES", "get"]


@dataclass(frozen=True, slots=True)
class Builtin:
    """A reward and what is known of it. Every function takes the reward's options as keywords.

    `score(prompt, response, label, metadata, **params)` raises `RewardError` where it cannot tell. Inline it must be
    done in microseconds, or be async: then it runs beside everything else, with a deadline. What may take longer, and
    what runs text of the policy's, goes to a worker process.
    `check(label, metadata, **params)` raises `RewardError` for a prompt that no response could score on.
    """

    score: Callable[..., float | Awaitable[float]]
    check: Callable[..., None]
    answer: Callable[..., str | None] | None  # f(response, **params): what the extraction accepts; None: it has none
    where: Literal["inline", "worker"]
    timeout: float | None = None  # seconds a call may take; None = env.timeout
    prepare: Callable[[], None] | None = None  # imports that would eat up the first call's time; worker only


BUILTINS = {
    "exact_match": Builtin(exact_match.score, exact_match.check, exact_match.answer, "inline"),
    "math": Builtin(math.score, math.check, math.answer, "worker", timeout=5.0, prepare=math.prepare),
    "dapo": Builtin(dapo.score, dapo.check, dapo.answer, "inline"),
    "deepscaler": Builtin(
        deepscaler.score, deepscaler.check, deepscaler.answer, "worker", timeout=5.0, prepare=math.prepare
    ),
    "gpqa": Builtin(gpqa.score, gpqa.check, gpqa.answer, "worker", timeout=10.0),
    "f1": Builtin(f1.score, f1.check, f1.answer, "worker", timeout=10.0),
    "ifbench": Builtin(ifbench.score, ifbench.check, None, "worker", timeout=10.0),
    "remote": Builtin(remote.score, remote.check, None, "inline", timeout=600.0),
    "reasoning_gym": Builtin(
        reasoning_gym.score, reasoning_gym.check, reasoning_gym.answer, "worker", prepare=reasoning_gym.prepare
    ),
}
NAMES = tuple(BUILTINS)


def get(name: str) -> Callable[..., float | Awaitable[float]]:
    """(prompt, response, label, metadata, **params) -> float, some async. Raises `HookError` with the nearest name."""
    return find(name).score


def find(name: str) -> Builtin:
    """Raises `HookError` naming the nearest built-in."""
    if name not in BUILTINS:
        near = nearest_choice(name, list(NAMES))
        hint = f"did you mean {near!r}?" if near else f"known are {', '.join(NAMES)}"
        raise HookError(f"there is no built-in reward {name!r}; {hint}")
    return BUILTINS[name]
