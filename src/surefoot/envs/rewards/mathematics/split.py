r"""Cutting cleaned text where no bracket is open."""

import re
from itertools import accumulate

_SEPARATOR = r"(?:,|\{,\}| )"
# Groups of exactly three digits behind one to three: 2,7 and 52,18 are lists, never 27 and 5218.
GROUPED = re.compile(
    rf"(?<![\d.,])(?<!\d )(?<!\d\{{,\}})[1-9]\d{{0,2}}(?P<s>{_SEPARATOR})\d{{3}}(?:(?P=s)\d{{3}})*"
    r"(?![\d/]|,\d| ?/|\{,\}\d| \d)"
)
_TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|.", re.DOTALL)
_OPEN = frozenset(["(", "[", "{", r"\{", r"\lfloor", r"\lceil", r"\begin"])
_CLOSE = frozenset([")", "]", "}", r"\}", r"\rfloor", r"\rceil", r"\end"])


def join_thousands(text: str) -> str:
    """Numbers without their separators.

    >>> join_thousands("48,250"), join_thousands("48{,}250.5"), join_thousands("2,7"), join_thousands("1,23,456")
    ('48250', '48250.5', '2,7', '1,23,456')
    """
    return GROUPED.sub(lambda match: re.sub(_SEPARATOR, "", match[0]), text)


def split_top(text: str, marks: frozenset[str], *, thousands: bool = True) -> tuple[list[str], list[str]]:
    r"""(pieces, marks between them), cut at `marks` outside brackets. `thousands`: 1,000 is one number, not two.

    >>> split_top("(1,2),x", frozenset(","))
    (['(1,2)', 'x'], [','])
    """
    pieces, found, depth, start, position = [], [], 0, 0, 0
    while position < len(text):
        grouped = GROUPED.match(text, position) if thousands and text[position].isdigit() else None
        match = grouped or _TOKEN.match(text, position)
        assert match is not None  # a token is any character
        token = match[0]
        depth += (token in _OPEN) - (token in _CLOSE)
        if token in marks and depth == 0:
            pieces.append(text[start:position].strip())
            found.append(token)
            start = match.end()
        position = match.end()
    return [*pieces, text[start:].strip()], found


def enclosed(text: str) -> tuple[str, str, str] | None:
    r"""(opening, inside, closing) where one pair of brackets holds all of `text`; the pair may differ, as in [0,1).

    >>> enclosed("[0,1)"), enclosed("(1)(2)")
    (('[', '0,1', ')'), None)
    """
    tokens = _TOKEN.findall(text)
    if len(tokens) < 2 or tokens[0] not in ("(", "[", "{", r"\{") or tokens[-1] not in (")", "]", "}", r"\}"):
        return None
    depths = list(accumulate((token in _OPEN) - (token in _CLOSE) for token in tokens))
    if min(depths[:-1]) < 1 or depths[-1] != 0:
        return None
    return tokens[0], text[len(tokens[0]) : -len(tokens[-1])].strip(), tokens[-1]
