"""How many words of the answer and of the label are the same: SQuAD's token F1 (arXiv 1606.05250)."""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from surefoot.envs.rewards.extract import exact_number
from surefoot.envs.rewards.options import label_text
from surefoot.types.errors import HookError, RewardError

_ARTICLES = frozenset(("a", "an", "the"))
_AROUND_NUMBERS = "()[]{}<>\"'“”‘’«»,;:!?*_`$€£%。，、"
# Scripts without spaces between words: each character is a word.
_UNSPACED = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])")


def score(prompt: str, response: str, label: Any, metadata: Mapping[str, Any], *, after: str = "") -> float:
    """2 p r / (p + r), 0 to 1: p the share of the response's words that the label has, r the other way round.

    `label` is text, a number, or a list of them: the best counts. `after`: only what follows its last occurrence is
    compared, and without one the score is 0. Case, punctuation and English articles do not count; numbers are one
    word and compared by value; characters of Chinese and Japanese are words of their own.
    Raises `RewardError` for labels of `check`.

    >>> score("", "The Eiffel Tower, in Paris", "eiffel tower", {}), score("", "It is 7.0", 7, {}, after="is")
    (0.6666666666666666, 1.0)
    """
    golds = _golds(label)
    found = answer(response, after=after) if after else response
    words = Counter(_words(found)) if found is not None else Counter[str | Decimal]()
    return max(_f1(gold, words) for gold in golds)


def check(label: Any, metadata: Mapping[str, Any], *, after: str = "") -> None:
    """Raise `RewardError` for a label, or one of a list, that is null, no text or number, or has no word to compare."""
    _check_after(after)
    _golds(label)


def answer(response: str, *, after: str = "") -> str | None:
    """What follows the last `after`; None where nothing is extracted."""
    _check_after(after)
    _, mark, rest = response.rpartition(after) if after else ("", "", "")
    return rest.strip() if mark else None


def _check_after(after: Any) -> None:
    if not isinstance(after, str):
        raise HookError(f"after = {after!r} is not text")


def _golds(label: Any) -> list[Counter[str | Decimal]]:
    labels = list(label) if isinstance(label, list | tuple) else [label]
    if not labels:
        raise RewardError("the label is an empty list")
    golds = [Counter(_words(label_text(one))) for one in labels]
    for one, gold in zip(labels, golds, strict=True):
        if not gold:
            raise RewardError(f"the label {one!r} has no word to compare: punctuation and articles do not count")
    return golds


def _f1(gold: Counter[str | Decimal], words: Counter[str | Decimal]) -> float:
    same = (gold & words).total()
    return 2 * same / (gold.total() + words.total())


def _words(text: str) -> list[str | Decimal]:
    """Numbers as they are worth, other words in lower case and without punctuation."""
    words: list[str | Decimal] = []
    for written in _UNSPACED.sub(r" \1 ", unicodedata.normalize("NFKC", text).casefold()).split():
        number = None if written.isalpha() else exact_number(written.strip(_AROUND_NUMBERS).rstrip("."))
        word = written.translate(_WITHOUT_PUNCTUATION)
        if number is not None:
            words.append(number)
        elif word and word not in _ARTICLES:
            words.append(word)
    return words


class _WithoutPunctuation(dict[int, str | None]):
    """For `str.translate`: Unicode's punctuation goes, and what ASCII has beside it."""

    def __missing__(self, code: int) -> str | None:
        character = chr(code)
        is_mark = unicodedata.category(character).startswith("P") or character in "$+<=>^`|~"
        self[code] = None if is_mark else character
        return self[code]


_WITHOUT_PUNCTUATION = _WithoutPunctuation()
