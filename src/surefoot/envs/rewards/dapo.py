r"""DAPO's rule: 1 where the answer behind the last "Answer:" is the label, else -1 (arXiv 2503.14476)."""

import re
from collections.abc import Mapping
from typing import Any

from surefoot.envs.rewards.extract import exact_number
from surefoot.envs.rewards.mathematics.boxes import last_box
from surefoot.envs.rewards.mathematics.clean import clean
from surefoot.envs.rewards.mathematics.units import split_unit
from surefoot.envs.rewards.options import is_number, label_text
from surefoot.types.errors import HookError, RewardError

WINDOW = 300  # characters at a response's end that are read
_MARK = re.compile(r"(?i:answer)\s*\**\s*:")


def score(
    prompt: str,
    response: str,
    label: Any,
    metadata: Mapping[str, Any],
    *,
    wrong: float = -1.0,
    strict_box: bool = False,
) -> float:
    r"""1.0, or `wrong`; no answer is wrong too.

    Only the last 300 characters are read: the line behind the last "Answer:", or with `strict_box` the last \boxed.
    LaTeX is brought to one spelling, a unit behind a number and what stands before "=" do not count. Numbers are
    compared by exact value, all else as text without spaces. Raises `RewardError` for labels of `check`.

    >>> score("", "So it is 34.\nAnswer: $x = 34$", 34, {}), score("", "34", 34, {})
    (1.0, -1.0)
    """
    gold = _gold(label, wrong)
    found = answer(response, strict_box=strict_box)
    return 1.0 if found is not None and _same(gold, _plain(found)) else float(wrong)


def check(label: Any, metadata: Mapping[str, Any], *, wrong: float = -1.0, strict_box: bool = False) -> None:
    """Raise `RewardError` for a label that says nothing, `HookError` for a `wrong` that is no number below 1."""
    _gold(label, wrong)


def answer(response: str, *, wrong: float = -1.0, strict_box: bool = False) -> str | None:
    r"""What is compared with the label, as it was written; None where there is none.

    >>> answer("Answer: 3\nAnswer: 4 kg"), answer(r"\boxed{4}"), answer(r"\boxed{4}", strict_box=True)
    ('4 kg', None, '4')
    """
    tail = response[-WINDOW:]
    if strict_box:
        return last_box(tail)
    marks = list(_MARK.finditer(tail))
    if not marks:
        return None
    lines = tail[marks[-1].end() :].strip(" \t\r\n*").splitlines()
    return lines[0].strip() or None if lines else None


def _gold(label: Any, wrong: float) -> str:
    if not is_number(wrong) or wrong >= 1:
        raise HookError(f"wrong = {wrong!r} is not a number below 1, which is what a right answer gets")
    gold = _plain(label_text(label))
    if not gold:
        raise RewardError(f"nothing is left of the label {label!r} to compare")
    return gold


def _plain(text: str) -> str:
    boxed = last_box(text)
    text = clean(text if boxed is None else boxed)
    return text.rpartition("=")[2].strip()


def _same(gold: str, found: str) -> bool:
    number = exact_number(gold)
    if number is not None:
        return exact_number(split_unit(found)[0]) == number
    return re.sub(r"\s", "", gold) == re.sub(r"\s", "", found)
