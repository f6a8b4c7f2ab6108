"""Constraints on form: paragraphs, lists, marks, copies."""

import json
import operator
import re
import string
from typing import NoReturn

from surefoot.envs.rewards.constraints.reading import bare, divided, paragraphs, plain_words, sentences, words

_PLACEHOLDER = re.compile(r"\[([^\[\]\n]+)\]")
_BULLET = re.compile(r"\s*[*+-]\s+\S")
_HIGHLIGHT = re.compile(r"(?<!\*)(\*{1,3})(?![*\s])[^*\n]*(?<!\s)\1(?!\*)")
_ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_FENCE = re.compile(r"```(?:json)?\s(?P<inside>.*)```", re.IGNORECASE | re.DOTALL)
_CLOSING = {")": "(", "]": "[", "}": "{"}
DEPTH = 5  # of nested brackets


def paragraph_count(response: str, num_paragraphs: int) -> bool:
    """Divided by ***, none of them empty."""
    parts = divided(response, "***")
    return len(parts) == num_paragraphs and all(parts)


def two_divided_paragraphs(response: str) -> bool:
    return paragraph_count(response, 2)


def two_paragraphs(response: str) -> bool:
    return len(paragraphs(response)) == 2


def paragraph_begins(response: str, num_paragraphs: int, nth_paragraph: int, first_word: str) -> bool:
    parts = paragraphs(response)
    if len(parts) != num_paragraphs or nth_paragraph > len(parts):
        return False
    return plain_words(parts[nth_paragraph - 1])[:1] == [bare(first_word)]


def three_paragraphs_of(response: str, n_sent: int, n_words: int) -> bool:
    """Divided by ***, each of n_sent sentences of n_words words."""
    lengths = [[len(plain_words(one)) for one in sentences(part)] for part in divided(response, "***")]
    return lengths == [[n_words] * n_sent] * 3


def placeholder_count(response: str, num_placeholders: int) -> bool:
    """At least so many [in brackets]."""
    return sum(bool(inside.strip()) for inside in _PLACEHOLDER.findall(response)) >= num_placeholders


def bullet_count(response: str, num_bullets: int) -> bool:
    """Markdown's bullets: a line's *, - or + with a blank behind it."""
    return sum(bool(_BULLET.match(line)) for line in response.splitlines()) == num_bullets


def highlight_count(response: str, num_highlights: int) -> bool:
    """At least so many *stretches* or **stretches**, each within a line."""
    return len(_HIGHLIGHT.findall(response)) >= num_highlights


def section_count(response: str, section_spliter: str, num_sections: int) -> bool:
    """At least so many marks like "Section 1"."""
    return len(re.findall(re.escape(section_spliter) + r"\s?\d+", response)) >= num_sections


def has_postscript(response: str, postscript_marker: str) -> bool:
    """A line that begins with the marker and says something; blanks within the marker and case do not matter."""
    marker = _squeezed(postscript_marker).rstrip(".")
    lines = (_squeezed(line).lstrip("*_#>") for line in response.splitlines())
    return any(line.startswith(marker) and words(line[len(marker) :]) for line in lines)


def _squeezed(line: str) -> str:
    return "".join(line.casefold().split())


def one_of_three_answers(response: str) -> bool:
    """Exactly one of yes, no and maybe, in the words of the instruction."""
    return sum(answer in response for answer in _ANSWERS) == 1


def is_json(response: str) -> bool:
    """One object or list and nothing else, in a code fence or not."""
    fence = _FENCE.fullmatch(response.strip())
    try:
        value = json.loads(fence["inside"] if fence else response, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict | list)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def has_title(response: str) -> bool:
    """<<in double angular brackets>>, on one line."""
    for line in response.splitlines():
        start, end = line.find("<<"), line.rfind(">>")
        if start >= 0 and line[start + 2 : max(end, 0)].strip(" <>"):
            return True
    return False


def two_responses(response: str) -> bool:
    """Two different ones, divided by ******."""
    parts = divided(response, "******")
    return len(parts) == 2 and all(parts) and parts[0] != parts[1]


def repeats_first(response: str, prompt_to_repeat: str) -> bool:
    return response.strip().casefold().startswith(prompt_to_repeat.casefold())


def is_copy(response: str, prompt_to_repeat: str) -> bool:
    return response.strip().casefold() == prompt_to_repeat.casefold()


def is_copied_times(response: str, prompt_to_repeat: str, N: int) -> bool:
    """Divided by ******."""
    parts = response.split("******")
    return len(parts) == N and all(is_copy(part, prompt_to_repeat) for part in parts)


def is_copy_but_first_word(response: str, prompt_to_repeat: str) -> bool:
    asked, given = prompt_to_repeat.split(), response.split()
    return given[1:] == asked[1:] and bool(given) and given[0] != asked[0]


def is_span(response: str, prompt_to_repeat: str, n_start: int, n_end: int) -> bool:
    """Characters n_start to n_end, the last one with or without."""
    spans = (prompt_to_repeat[n_start:n_end], prompt_to_repeat[n_start : n_end + 1])
    return response.strip().casefold() in [span.strip().casefold() for span in spans]


def repeats_phrase(response: str, phrase: str, small_n: int) -> bool:
    """So many times, each time with one word between the first and the last replaced, and never as it is."""
    asked, given = [bare(word) for word in phrase.split()], [bare(word) for word in response.split()]
    starts = [i for i in range(len(given)) if given[i] == asked[0] and given[i + len(asked) - 1 :][:1] == asked[-1:]]
    changes = [sum(map(operator.ne, asked, given[i : i + len(asked)])) for i in starts]
    return changes == [1] * small_n


def ends_with(response: str, end_phrase: str) -> bool:
    return response.strip().strip('"').rstrip().casefold().endswith(end_phrase.casefold())


def in_quotes(response: str) -> bool:
    text = response.strip()
    return len(text) > 1 and text[0] + text[-1] in ('""', "“”")


def no_comma(response: str) -> bool:
    return not any(comma in response for comma in ",，、،")


def no_dot(response: str) -> bool:
    return not any(dot in response for dot in ".。…")


def no_exclamation(response: str) -> bool:
    return not any(mark in response for mark in "!！¡")


def all_punctuation(response: str) -> bool:
    """. , ! ? ; : each once at least, and an interrobang beside them."""
    for interrobang in ("?!", "!?", "‽"):
        if interrobang in response:
            rest = response.replace(interrobang, "", 1)
            return all(mark in rest for mark in ".,!?;:")
    return False


def nested_brackets(response: str) -> bool:
    """Five pairs within each other, rightly closed."""
    opened: list[tuple[str, int]] = []  # each with the depth of what was closed inside it
    for character in response:
        if character in "([{":
            opened.append((character, 0))
        elif character in _CLOSING:
            if not opened or opened[-1][0] != _CLOSING[character]:
                opened = []
                continue
            depth = opened.pop()[1] + 1
            if depth >= DEPTH:
                return True
            if opened:
                opened[-1] = (opened[-1][0], max(opened[-1][1], depth))
    return False


def words_in_square_brackets(response: str) -> bool:
    found = response.split()
    return bool(found) and all(re.fullmatch(r"\[[^\[\]]+\][.,;:!?]?", word) for word in found)


def pairs_in_angle_brackets(response: str) -> bool:
    """<<two words>> <<two words>>; the last may be left over."""
    found = response.split()
    pairs = zip(found[::2], found[1::2], strict=False)
    return len(found) > 1 and all(a.startswith("<<") and b.rstrip(string.punctuation.replace(">", "")).endswith(">>")
                                  for a, b in pairs)  # fmt: skip


def word_a_line(response: str) -> bool:
    lines = [line.split() for line in response.splitlines() if line.strip()]
    return bool(lines) and all(len(line) == 1 for line in lines)


def no_whitespace(response: str) -> bool:
    return bool(response) and not any(character.isspace() for character in response)


def sentences_joined_by_hyphens(response: str) -> bool:
    """One.-Two.-Three."""
    parts = response.strip().split("-")
    return len(parts) > 1 and all(part == part.strip() and len(sentences(part)) == 1 for part in parts)
