"""Words, sentences and paragraphs of a response. Every function is linear in its length."""

import re
import unicodedata
from functools import lru_cache

_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(
    r"(?<![.!?…])[.!?…]+[\"'”’)\]*_]*(?=\s|\Z)"  # a full stop inside a number or a name is none
    r"|[。！？]+[”’」』）]*"
    r"|\n(?=[^\S\n]*\n)"  # a title has no full stop
)
_ABBREVIATION = re.compile(
    r"(?:\b(?i:mr|mrs|ms|dr|prof|sr|jr|st|vs|fig|inc|ltd|co|corp|gen|col|capt|rev|hon|approx|e\.g|i\.e|a\.m|p\.m|u\.s"
    r"|p\.s|p\.p\.s|ph\.d)|(?:^|\s|\.)[A-HJ-Z])\.\Z"
)
_ALWAYS_MID_SENTENCE = 12  # characters before an end that decide whether it is an abbreviation's
_UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")


def words(text: str) -> list[str]:
    """Runs of letters, digits and underscores: "don't" is two, as IFEval counts them."""
    return _WORD.findall(text)


def plain_words(text: str) -> list[str]:
    """What stands between blanks, in lower case and without punctuation: "Don't!" is dont."""
    bare = "".join(c for c in text if c.isspace() or not _is_mark(c))
    return bare.casefold().split()


def bare(word: str) -> str:
    """One word without case and punctuation."""
    return "".join(c for c in word if not _is_mark(c)).casefold()


def sentences(text: str) -> list[str]:
    """Sentences with what ends them; what is left at the end is one too, and a blank line ends one.

    >>> sentences("Dr. No has 3.5 kg. Has he? Yes")
    ['Dr. No has 3.5 kg.', 'Has he?', 'Yes']
    """
    found, start = [], 0
    for match in _SENTENCE_END.finditer(text):
        before = text[max(start, match.end() - _ALWAYS_MID_SENTENCE) : match.end()]
        if match[0] == "." and _ABBREVIATION.search(before):
            continue
        found.append(text[start : match.end()].strip())
        start = match.end()
    found.append(text[start:].strip())
    return [sentence for sentence in found if words(sentence)]


def paragraphs(text: str) -> list[str]:
    """What blank lines separate."""
    return [part.strip() for part in re.split(r"\n(?:[^\S\n]*\n)+", text) if part.strip()]


def divided(text: str, divider: str) -> list[str]:
    """Parts between dividers; nothing before the first or behind the last is no part, nothing between two is one."""
    parts = [part.strip() for part in text.split(divider)]
    return parts[not parts[0] : len(parts) - (not parts[-1] and len(parts) > 1)]


def occurrences(keyword: str, text: str) -> int:
    """How often `keyword` stands there as whole words, in any case: "war" is no part of "toward".

    >>> occurrences("war", "War is not toward war."), occurrences("猫", "我的猫")
    (2, 1)
    """
    return len(_pattern(keyword).findall(text))


@lru_cache(maxsize=1024)
def _pattern(keyword: str) -> re.Pattern[str]:
    before = r"(?<!\w)" if _is_spaced(keyword[0]) else ""
    after = r"(?!\w)" if _is_spaced(keyword[-1]) else ""
    return re.compile(before + re.escape(keyword) + after, re.IGNORECASE)


def _is_spaced(character: str) -> bool:
    return character.isalnum() and not unicodedata.name(character, "").startswith(_UNSPACED)


def _is_mark(character: str) -> bool:
    return not character.isalnum() and unicodedata.category(character)[0] in "PS"
