r"""DeepScaleR's rule: 1 where the last box behind the thinking is mathematically the label, else 0."""

from collections.abc import Mapping
from typing import Any

from surefoot.envs.rewards import math
from surefoot.envs.rewards.options import one_of
from surefoot.envs.rewards.thinking import final_part
from surefoot.types.errors import RewardError

THINKING = ("required", "optional")
_RESPONSE_MARK = "###Response"  # of the models that have no </think>


def score(
    prompt: str,
    response: str,
    label: Any,
    metadata: Mapping[str, Any],
    *,
    thinking: str = "required",
) -> float:
    r"""1.0 or 0.0. `label` is an answer as the math reward takes it, or a list of them: any of them is right.

    `thinking`: "required" scores 0 without </think> (or "###Response"); with "optional" a response that never thinks
    counts as it is. What follows the last of them is graded, and thinking that never ends has no answer.
    Raises `RewardError` for labels of `check`.

    >>> score("", r"<think>\boxed{3}?</think> It is \boxed{\frac{2}{4}}.", ["0.5", "50\\%"], {})
    1.0
    """
    golds = _golds(label)
    for gold in golds:  # a bad label is an error whatever the response says
        math.check(gold, {})
    found = _final(response, thinking)
    return float(found is not None and any(math.score(prompt, found, gold, {}) for gold in golds))


def check(label: Any, metadata: Mapping[str, Any], *, thinking: str = "required") -> None:
    """Raise `RewardError` for labels that the math reward refuses and for an empty list."""
    _final("", thinking)
    for gold in _golds(label):
        math.check(gold, {})


def answer(response: str, *, thinking: str = "required") -> str | None:
    """What the last box behind the thinking holds; None where there is none."""
    found = _final(response, thinking)
    return None if found is None else math.answer(found)


def _golds(label: Any) -> list[Any]:
    if isinstance(label, list | tuple) and not label:
        raise RewardError("the label is an empty list")
    return list(label) if isinstance(label, list | tuple) else [label]


def _final(response: str, thinking: str) -> str | None:
    one_of("thinking", thinking, THINKING)
    if "</think>" not in response and _RESPONSE_MARK in response:
        return response.rpartition(_RESPONSE_MARK)[2]
    if "</think>" not in response and thinking == "required":
        return None
    return final_part(response)
