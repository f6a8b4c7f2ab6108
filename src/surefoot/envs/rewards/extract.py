"""Finding the answer in a response. One function an extractor, one line in the table."""

import re
from collections.abc import Callable
from decimal import Decimal

from surefoot.envs.rewards.options import one_of

_SEPARATOR = r"(?:,|\{,\})"  # 48,250 or LaTeX's 48{,}250
# Groups of exactly three behind one to three digits: 2,7 and 52,18 are lists, never 27 and 5218.
_GROUPED = rf"(?<![0-9],)(?<![0-9]\{{,\}})[1-9][0-9]{{0,2}}(?:{_SEPARATOR}[0-9]{{3}})+(?!{_SEPARATOR}?[0-9])"
_DIGITS = rf"(?:(?:{_GROUPED}|[0-9]+)(?:\.[0-9]+)?|(?<![\w.])\.[0-9]+)(?:[eE][+-]?[0-9]{{1,6}}(?![0-9]))?"
# A minus behind a digit, letter or bracket subtracts: the last number of 5-8 is 8.
_NUMBER = re.compile(rf"(?:(?<![\w)\]}}])[-−])?{_DIGITS}")
_SIGNED = re.compile(rf"[-−+]?{_DIGITS}")


def whole(response: str) -> str:
    """The response as it is."""
    return response


def last_number(response: str) -> str | None:
    """The last number as written, without separators; None where there is none.

    A full stop behind it, units and a percent sign are no part of it.

    >>> last_number("48,250 and then -8."), last_number("2,7"), last_number("3.5%"), last_number("none")
    ('-8', '7', '3.5', None)
    """
    matches = _NUMBER.findall(response)
    return _plain(matches[-1]) if matches else None


def exact_number(text: str) -> Decimal | None:
    """The exact value where all of `text`, outer space aside, is one number; else None.

    >>> exact_number(" 48,250 "), exact_number("2,7"), exact_number("12 kg")
    (Decimal('48250'), None, None)
    """
    text = text.strip()
    return Decimal(_plain(text)) if _SIGNED.fullmatch(text) else None


Extractor = Callable[[str], str | None]
EXTRACTORS: dict[str, Extractor] = {"none": whole, "last_number": last_number}


def get_extractor(name: str) -> Extractor:
    """The extractor, text -> answer or None. Raises `HookError` with the nearest name."""
    one_of("extract", name, tuple(EXTRACTORS))
    return EXTRACTORS[name]


def _plain(number: str) -> str:
    return re.sub(_SEPARATOR, "", number).replace("−", "-").removeprefix("+")
