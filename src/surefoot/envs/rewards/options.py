"""What several rewards ask of their options and labels."""

import math
from collections.abc import Sequence
from typing import Any

from surefoot.config.nearest import nearest_choice
from surefoot.types.errors import HookError, RewardError


def one_of(option: str, value: Any, choices: Sequence[str]) -> None:
    """Raise `HookError` with the nearest choice unless `value` is one."""
    if value not in choices:
        near = nearest_choice(str(value), list(choices))
        hint = f"did you mean {near!r}?" if near else f"known are {', '.join(choices)}"
        raise HookError(f"there is no {option} = {value!r}; {hint}")


def is_number(value: Any) -> bool:
    """Whether `value` is a finite int or float; booleans are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def label_text(label: Any) -> str:
    """A label as text. Raises `RewardError` for null, booleans, lists, objects, infinities, NaN and blank text.

    >>> label_text(" 7 "), label_text(7), label_text(7.0)
    (' 7 ', '7', '7.0')
    """
    if label is None:
        raise RewardError("the label is null or was not read")
    if isinstance(label, float) and not math.isfinite(label):
        raise RewardError(f"the label is {label}, no finite number")
    if not isinstance(label, str) and not is_number(label):
        raise RewardError(f"the label {label!r} is of type {type(label).__name__}, not text or a number")
    text = str(label)
    if not text.strip():
        raise RewardError("the label is empty")
    return text
