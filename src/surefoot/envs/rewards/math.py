r"""1 where the answer in the last box is mathematically the label, else 0. docs/math.md says what that means."""

import re
from collections.abc import Mapping
from typing import Any

from surefoot.envs.rewards.mathematics import symbolic
from surefoot.envs.rewards.mathematics.boxes import find_answer, last_box
from surefoot.envs.rewards.mathematics.clean import clean
from surefoot.envs.rewards.mathematics.compare import MAX_LENGTH, is_right
from surefoot.envs.rewards.options import label_text
from surefoot.types.errors import RewardError


def score(prompt: str, response: str, label: Any, metadata: Mapping[str, Any], *, fallback: str = "none") -> float:
    r"""1.0 or 0.0. No answer found scores 0.

    `fallback` is what counts without a complete box: "none", "final_answer" (what follows "answer is" or "####") or
    "last_number". Labels are text in LaTeX or plain, a whole solution with its box or "####", or a number by its exact
    decimal value. Raises `RewardError` for labels of `check`, `HookError` for a fallback that does not exist.

    >>> score("", r"first \boxed{17}, then \boxed{\frac{84}{2}}", "42", {})
    1.0
    """
    gold = _gold(label)
    found = answer(response, fallback=fallback)
    return float(found is not None and is_right(gold, found))


def answer(response: str, *, fallback: str = "none") -> str | None:
    r"""The text that is graded, as it was written; None where there is none.

    >>> answer(r"so \boxed{\dfrac{3}{4}} holds"), answer("#### 5"), answer("#### 5", fallback="final_answer")
    ('\\dfrac{3}{4}', None, '5')
    """
    return find_answer(response, fallback)


def check(label: Any, metadata: Mapping[str, Any], *, fallback: str = "none") -> None:
    """Raise `RewardError` for a label that no answer could match: null, empty, too long, no text or finite number."""
    find_answer("", fallback)
    _gold(label)


def prepare() -> None:
    """Import what takes a second, before the first answer's clock runs."""
    symbolic.prepare()


def _gold(label: Any) -> str:
    text = label_text(label)
    boxed = last_box(text)
    gold = boxed if boxed is not None else re.split(r"####", text)[-1].strip()
    if not clean(gold):
        raise RewardError("the label is empty")
    if len(gold) > MAX_LENGTH:
        raise RewardError(f"the label has {len(gold)} characters; {MAX_LENGTH} are read")
    return gold
