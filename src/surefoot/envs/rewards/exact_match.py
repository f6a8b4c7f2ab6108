"""1 where the answer is the label, else 0."""

from collections.abc import Mapping
from typing import Any

from surefoot.envs.rewards.extract import exact_number, get_extractor
from surefoot.envs.rewards.options import label_text
from surefoot.types.errors import RewardError


def score(
    prompt: str,
    response: str,
    label: Any,
    metadata: Mapping[str, Any],
    *,
    extract: str = "none",
    strip: bool = True,
) -> float:
    """1.0 or 0.0. Labels are compared as text: 42 is "42", and "007" is not "7".

    By exact value, instead, with extract = "last_number", and for a label that JSON wrote as a decimal (3.0 has no
    one spelling): "3.50" equals 3.5, and 9007199254740995 differs from 9007199254740996. `strip`: outer space does
    not count. No answer found scores 0. Raises `RewardError` for labels of `check`.

    >>> score("2+2?", "It is 4.", "4", {}, extract="last_number"), score("2+2?", "It is 4.", "4", {})
    (1.0, 0.0)
    """
    check(label, metadata, extract=extract, strip=strip)
    found = get_extractor(extract)(response)
    if found is None:
        return 0.0
    if _by_value(label, extract):
        return float(exact_number(found) == exact_number(str(label)))
    gold = str(label)
    return float(found.strip() == gold.strip() if strip else found == gold)


def check(label: Any, metadata: Mapping[str, Any], *, extract: str = "none", strip: bool = True) -> None:
    """Raise `RewardError` for a label that says nothing: null, empty, no text or number, or no single number where
    numbers are compared."""
    label_text(label)
    if _by_value(label, extract) and exact_number(str(label)) is None:
        raise RewardError(f"the label {label!r} is not one number, and numbers are compared")


def answer(response: str, *, extract: str = "none", strip: bool = True) -> str | None:
    """What is compared with the label; None where nothing is extracted."""
    return None if extract == "none" else get_extractor(extract)(response)


def _by_value(label: Any, extract: str) -> bool:
    return extract == "last_number" or isinstance(label, float)
