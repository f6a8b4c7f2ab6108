"""Built-in rewards by name. One file a reward, one line in the table."""

from collections.abc import Callable
from dataclasses import dataclass

from surefoot.config.suggest import nearest_choice
from surefoot.envs.rewards import exact_match, reasoning_gym
from surefoot.types.errors import HookError
from surefoot.types.protocols import RewardFunction

__all__ = ["NAMES", "get"]


@dataclass(frozen=True, slots=True)
class Builtin:
    """`check(label, metadata, **params)` raises `RewardError` for a prompt that no response could score on."""

    score: RewardFunction
    check: Callable[..., None]


BUILTINS = {
    "exact_match": Builtin(exact_match.score, exact_match.check),
    "reasoning_gym": Builtin(reasoning_gym.score, reasoning_gym.check),
}
NAMES = tuple(BUILTINS)


def get(name: str) -> RewardFunction:
    """(prompt, response, label, metadata, **params) -> float. Raises `HookError` naming the nearest built-in."""
    return find(name).score


def find(name: str) -> Builtin:
    """Function and check. Raises `HookError` naming the nearest built-in."""
    if name not in BUILTINS:
        near = nearest_choice(name, list(NAMES))
        hint = f"did you mean {near!r}?" if near else f"known are {', '.join(NAMES)}"
        raise HookError(f"there is no built-in reward {name!r}; {hint}")
    return BUILTINS[name]
