r"""Where in a response the answer stands. Pure text; every function is linear in its length."""

import re
from collections.abc import Callable

from surefoot.envs.rewards.extract import last_number
from surefoot.envs.rewards.options import one_of

_MARK = re.compile(
    r"\\(?:boxed|fbox)(?![a-zA-Z])\s*(?:(?P<open>\{)|(?P<bare>[^\s{}$\\]+))"  # \boxed{8}, or \boxed 8
    r"|\\(?s:.)"  # an escaped brace closes nothing
    r"|(?P<brace>[{}])"
)
_STATED = re.compile(r"(?i:\banswer\s*\**(?:is|:|=)|####)[\s*:]*")
_SENTENCE_END = re.compile(r"[.!?](?=\s)")


def last_box(response: str) -> str | None:
    r"""What the last complete, non-empty \boxed{...} or \fbox{...} holds; None where there is none.

    Braces are balanced; a box that is never closed is no answer. Of nested boxes the outer one ends last.

    >>> last_box(r"first \boxed{17}, then \boxed{\frac{1}{2}}"), last_box(r"\boxed 8."), last_box(r"\boxed{8")
    ('\\frac{1}{2}', '8', None)
    """
    found = None
    opened: list[int | None] = []  # where each open brace's box begins, None for a brace that opens no box
    for mark in _MARK.finditer(response):
        if mark["open"]:
            opened.append(mark.end())
        elif mark["bare"]:
            found = mark["bare"].rstrip(".,;:?*") or found
        elif mark["brace"] == "{":
            opened.append(None)
        elif mark["brace"] and opened and (start := opened.pop()) is not None:
            found = response[start : mark.start()].strip() or found
    return found


def stated(response: str) -> str | None:
    """What follows the last "answer is", "answer:" or "####", up to the end of its sentence or line; else None.

    >>> stated("Hence the final answer is $x = 3$. Done."), stated("#### 1,200"), stated("It is 3.")
    ('$x = 3$', '1,200', None)
    """
    ends = [match.end() for match in _STATED.finditer(response)]
    if not ends:
        return None
    line = response[ends[-1] :].partition("\n")[0]
    return _SENTENCE_END.split(line, maxsplit=1)[0].strip(" .*") or None


FALLBACKS: dict[str, Callable[[str], str | None]] = {
    "none": lambda response: None,
    "final_answer": stated,
    "last_number": last_number,
}


def find_answer(response: str, fallback: str) -> str | None:
    """The last box, else what `fallback` finds. Raises `HookError` for a fallback that does not exist."""
    one_of("fallback", fallback, tuple(FALLBACKS))
    box = last_box(response)
    return FALLBACKS[fallback](response) if box is None else box
