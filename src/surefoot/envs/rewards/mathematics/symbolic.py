r"""What the grammar does not know, such as integrals and limits: parsed and compared by math-verify.

Its own time limits rest on a signal, which only the main thread can have, and are off: the process that runs this has
the limit. What is known to explode is refused before.
"""

import re
from typing import Any

MAX_LENGTH = 300
MAX_NUMBER = 12  # digits
_TOWER = re.compile(r"\^\s*\{[^{}]*\^|\^\s*\{?\s*[-+]?\d{4,}|!|\^\s*\w\s*\^|\\overset|\\prod")
_DECIMAL = re.compile(r"(\d*)\.(\d+)")
DIGITS = 60


def equivalent(gold: str, answer: str) -> bool:
    """Whether math-verify takes them for equal and 60 digits do not say otherwise; False for what it cannot parse."""
    texts = [_fractions(text) for text in (gold, answer)]
    if any(len(text) > MAX_LENGTH or _explodes(text) for text in texts):
        return False
    from math_verify import verify

    parsed = [_parse(text) for text in texts]
    if None in parsed:
        return False
    return bool(verify(*parsed, timeout_seconds=None)) and not _apart(*parsed)


def prepare() -> None:
    """Imports that take a second, which is not the first answer's."""
    import math_verify  # noqa: F401
    import sympy  # noqa: F401


def _parse(text: str) -> Any:
    from math_verify import LatexExtractionConfig, parse

    found = parse(f"${text}$", [LatexExtractionConfig()], fallback_mode="no_fallback", parsing_timeout=None)
    return found[0] if found else None


def _explodes(text: str) -> bool:
    return bool(_TOWER.search(text) or re.search(rf"\d{{{MAX_NUMBER + 1}}}", text) or text.count("{") > 40)


def _fractions(text: str) -> str:
    """Decimals as fractions: math-verify compares decimals by rounding."""
    return _DECIMAL.sub(lambda m: rf"\frac{{{int(m[1] + m[2])}}}{{1{'0' * len(m[2])}}}", text)


def _apart(gold: Any, answer: Any) -> bool:
    """Whether both are numbers whose first 60 digits differ."""
    import sympy

    if not all(isinstance(value, sympy.Expr) and not value.free_symbols for value in (gold, answer)):
        return False
    left, right = (sympy.N(value.doit(), DIGITS) for value in (gold, answer))
    if not (left.is_number and right.is_number):
        return False
    scale = max(abs(left), abs(right))
    return bool(abs(left - right) > scale * sympy.Rational(1, 10 ** (DIGITS - 20)))
