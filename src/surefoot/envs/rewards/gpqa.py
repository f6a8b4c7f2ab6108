"""Multiple choice: 1 where the last choice that the response makes is the right one, else 0 (arXiv 2311.12022)."""

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from surefoot.envs.rewards.options import is_number, label_text
from surefoot.envs.rewards.thinking import final_part
from surefoot.types.errors import RewardError

DEFAULT_LETTERS = "ABCDEFGHIJ"  # where metadata does not say how many choices there are
WINDOW = 20_000  # characters at a response's end that are read

_IS = r"(?: (?:is|was|be|would be|should be|must be|has to be)\b)"
_TO = r"(?: (?:to|for) (?:this|that|the|your)(?: \w{1,20}){0,4}?)"  # the answer to the question is ...
_FILLER = (
    r"(?: ?\b(?:therefore|thus|hence|then|clearly|indeed|actually|definitely|probably|likely|most likely|just"
    r"|simply|option|choice|letter|answer)\b:?){0,3}"
)
_NOUN = r"\b(?:answer|(?:correct|right|best|final) (?:option|choice|letter)|my (?:choice|pick))"
_MARK = r"(?: ?[:=→⇒–—-]{1,3})"
_VERB = r"\b(?:choose|select|pick|going with|go with|opt for)\b"
_LETTER = r" ?\n?[(\[ ]{0,6}(?P<{0}>[A-Za-z])(?![\w'’=+]|-\w)"
_LETTER_1, _LETTER_2 = (_LETTER.replace("{0}", name) for name in ("stated", "chosen"))
_STATEMENT = re.compile(
    rf"(?i:{_NOUN}(?:{_TO}?{_IS}{_MARK}?|{_MARK}|(?= ?[\n(\[])|(?= (?:option|choice|letter)\b)){_FILLER}){_LETTER_1}"
    rf"|(?i:{_VERB}(?: the)?{_FILLER}){_LETTER_2}"
    r"|(?<![\w'’])(?P<praised>[A-Z])[)\].]{0,3} (?i:is|must be)(?i: the| clearly| indeed| therefore| thus){0,2} "
    r"(?i:(?:correct|right|best) (?:answer|option|choice|one)\b|(?:correct|right)(?=[.,;:!)\n]|$| because\b| since\b))"
)
_HEDGE = re.compile(r"[)\]. ]{0,6}(?:(?:,|/|&|\bor\b|\band\b) ?){1,2}(?:(?:option|choice) )?[(\[ ]{0,3}[A-Z](?![\w'’])")
_PROSE = re.compile(r" (?!(?i:because|since|as|is|for|due|which|and|or|with|from|based)\b)[a-z]")
_WRAPPED = re.compile(r"(?<![*\w])[*_\"'“‘]{1,4}([A-Z])[*_\"'”’]{1,4}(?![*\w])")
_END = re.compile(r"[)\]. *]{0,6}(?:\n|$)")
_ALONE = re.compile(r"[(\[ ]{0,6}([A-Za-z])[)\]. :]{0,6}")
_LISTED = re.compile(r"[(\[]?([A-Z])[)\].:]{1,2} ?\S.*")
_BRACKETED = re.compile(r"(?<![\w)])[(\[]{1,3}([A-Z])[)\]]")
_CUE = re.compile(rf"(?i:{_NOUN}(?:{_TO}?{_IS}{_MARK}?|{_MARK}))[ \n]?")


@dataclass(frozen=True, slots=True)
class _Question:
    """Letters in the order of the choices; `choices` is empty where metadata has none; `right` is a letter."""

    letters: tuple[str, ...]
    choices: tuple[str, ...]
    right: str


def score(prompt: str, response: str, label: Any, metadata: Mapping[str, Any]) -> float:
    r"""1.0 or 0.0. What stands before </think>, or before the last 20,000 characters, is not read.

    `label` is the right choice's letter, its index from 0 as a number, or its text. `metadata` may hold "choices" (a
    list of texts, or an object of letter to text), "valid_letters" and "correct_letter". Of all choices that the
    response makes the last counts; "A or B" is none. Without a letter, the text of one choice is taken for it.
    Raises `RewardError` for labels of `check`.

    >>> score("", "A fair guess is B, but I think the answer is **C**.", "C", {})
    1.0
    >>> score("", r"So \boxed{\text{Oslo}}", 1, {"choices": ["Rome", "Oslo"]})
    1.0
    """
    question = _question(label, metadata)
    text = _text(response)
    found = _letter(text)
    if found is None:
        found = _by_text(_words(text), question)
    return float(found == question.right)


def check(label: Any, metadata: Mapping[str, Any]) -> None:
    """Raise `RewardError` where label and metadata do not say which choice is right, or contradict each other."""
    _question(label, metadata)


def answer(response: str) -> str | None:
    """The letter that was chosen, else the words that are compared with the choices; None where there are none.

    >>> answer("Answer: (b)"), answer("The answer is Oslo."), answer("")
    ('B', 'Oslo', None)
    """
    text = _text(response)
    return _letter(text) or _words(text) or None


def _text(response: str) -> str:
    r"""One line a line, one blank a blank; \boxed{C} as "answer: (C)", and **C** as (C)."""
    text = re.sub(r"\\(?:boxed|fbox)(?![a-zA-Z])", " answer: ", (final_part(response) or "")[-WINDOW:])
    text = re.sub(r"\\[a-zA-Z]{1,20}|\\.|[$`#>]", "", text)
    text = _WRAPPED.sub(r"(\1)", text.translate({ord("{"): "(", ord("}"): ")"}))
    text = re.sub(r"[^\S\n]+", " ", re.sub(r"\*|__|[\x00-\x09\x0b-\x1f]", " ", text))
    return re.sub(r" ?\n[ \n]*", "\n", text).strip()


def _letter(text: str) -> str | None:
    """The last choice that is stated, else what stands alone; "" for a statement that leaves it open."""
    found = None
    for match in _STATEMENT.finditer(text):
        stated = _reading(match, text)
        found = found if stated is None else stated
    return _unstated(text) if found is None else found


def _reading(match: re.Match[str], text: str) -> str | None:
    """The letter of a statement, "" where it names several, None where it is none: "the answer is a number"."""
    letter = match["stated"] or match["chosen"] or match["praised"]
    if match["praised"]:
        return letter
    rest = text[match.end() : match.end() + 60]
    bracketed = match[0][-2:-1] in ("(", "[")
    if _HEDGE.match(rest):
        return ""
    if letter.islower() and not (bracketed and rest[:1] in (")", "]")) and not _END.match(rest):
        return None
    if letter in "AI" and not bracketed and _PROSE.match(rest):
        return None
    return letter.upper()


def _unstated(text: str) -> str | None:
    """The last line where it is a letter, the only one with a letter before its text, or has one letter in brackets."""
    lines = text.split("\n")
    if match := _ALONE.fullmatch(lines[-1]):
        return match[1].upper()
    listed = [line for line in lines if _LISTED.fullmatch(line)]
    if listed == lines[-1:] and (match := _LISTED.fullmatch(lines[-1])):
        return match[1]
    bracketed = set(_BRACKETED.findall(lines[-1]))
    return bracketed.pop() if len(bracketed) == 1 else None


def _words(text: str) -> str:
    """What is stated behind the last "answer is", else the last line."""
    cues = list(_CUE.finditer(text))
    words = text[cues[-1].end() :].partition("\n")[0] if cues else text.rpartition("\n")[2]
    return words.strip(" ().[]")


def _by_text(words: str, question: _Question) -> str | None:
    matches = _matches(words, question.choices)
    return question.letters[matches[0]] if len(matches) == 1 else None


def _matches(words: str, choices: Sequence[str]) -> list[int]:
    return [i for i, choice in enumerate(choices) if _same(choice, words)]


def _same(choice: str, words: str) -> bool:
    return _bare(choice) == _bare(words) != ""


def _bare(text: str) -> str:
    return " ".join(text.casefold().strip(" ().[]").split())


def _question(label: Any, metadata: Mapping[str, Any]) -> _Question:
    choices, letters = _choices(metadata)
    named = metadata.get("correct_letter")
    right = None if named is None else _known(str(named), letters, "correct_letter")
    if right is None or is_number(label) or _is_letter(label, letters) or len(_matches(str(label), choices)) == 1:
        resolved = _resolve(label, choices, letters)
        if right not in (None, resolved):
            raise RewardError(f"the label {label!r} is choice {resolved}, but correct_letter is {right}")
        right = resolved
    return _Question(letters, choices, right)


def _choices(metadata: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Texts and letters, equally many where there are texts."""
    choices = metadata.get("choices")
    letters: Sequence[str] = metadata.get("valid_letters") or DEFAULT_LETTERS
    if isinstance(choices, Mapping):
        letters, choices = list(choices), list(choices.values())
    elif isinstance(choices, list | tuple):
        letters = metadata.get("valid_letters") or string.ascii_uppercase[: len(choices)]
    elif choices is not None:
        raise RewardError(f"metadata's choices are of type {type(choices).__name__}, not a list or an object")
    letters = tuple(str(letter).strip().upper() for letter in letters)
    if any(len(letter) != 1 or letter not in string.ascii_uppercase for letter in letters):
        raise RewardError(f"the choices' letters {', '.join(letters)} are not all one letter from A to Z")
    if choices is not None and len(choices) != len(letters):
        raise RewardError(f"there are {len(choices)} choices and {len(letters)} letters")
    return tuple(map(str, choices or ())), letters


def _resolve(label: Any, choices: Sequence[str], letters: Sequence[str]) -> str:
    text = label_text(label)
    if not isinstance(label, str):
        if label != int(label) or not 0 <= label < len(letters):
            raise RewardError(f"the label {label!r} is no index of {len(letters)} choices, counted from 0")
        return letters[int(label)]
    if _is_letter(label, letters):
        return _known(label, letters, "label")
    matches = _matches(text, choices)
    if len(matches) != 1:
        what = f"{len(matches)} of the choices" if choices else "no letter, and metadata has no choices"
        raise RewardError(f"the label {text!r} is {what}")
    return letters[matches[0]]


def _is_letter(label: Any, letters: Sequence[str]) -> bool:
    return isinstance(label, str) and label.strip(" ().[]").upper() in letters


def _known(text: str, letters: Sequence[str], what: str) -> str:
    letter = text.strip(" ().[]").upper()
    if letter not in letters:
        raise RewardError(f"the {what} {text!r} is none of {', '.join(letters)}")
    return letter
