"""Inequalities of one symbol as the intervals that they are."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from surefoot.envs.rewards.mathematics.exact import Inexact, TooLarge, Undefined
from surefoot.envs.rewards.mathematics.expression import Call, Node, Number, Symbol, symbols
from surefoot.envs.rewards.mathematics.numeric import real_value
from surefoot.envs.rewards.mathematics.shape import REALS, Bracket, Named, Quantity, Relation, Shape, Union, minus

_FLIPPED = {">": "<", r"\ge": r"\le"}


def interval(low: Node | None, high: Node | None, *, open_low: bool = True, open_high: bool = True) -> Bracket:
    """None is infinite."""
    ends = REALS.items[0] if low is None else Quantity(low), REALS.items[1] if high is None else Quantity(high)
    return Bracket("(" if open_low else "[", ends, ")" if open_high else "]")


def without(points: Sequence[Node]) -> Shape | None:
    """The real numbers except for these; None where they have no order."""
    try:
        ordered = sorted(points, key=real_value)
    except (Inexact, TooLarge, Undefined):
        return None
    return Union(tuple(interval(low, high) for low, high in pairwise([None, *ordered, None])))


def inequality(nodes: Sequence[Node], marks: Sequence[str]) -> Shape | None:
    r"""The shape of nodes with < > \le \ge \ne between them: of one symbol between bounds, the interval.

    Other inequalities are a difference compared with 0. None where two that point in different ways are chained.
    """
    if all(mark in _FLIPPED for mark in marks):
        nodes, marks = nodes[::-1], [_FLIPPED[mark] for mark in marks[::-1]]
    if not all(mark in ("<", r"\le") for mark in marks) and list(marks) != [r"\ne"]:
        return None
    found = _around(nodes, marks[0]) if len(marks) == 1 else None
    found = found or (_between(nodes, marks) if marks[0] != r"\ne" else None)
    return found or (Relation(marks[0], minus(nodes[0], nodes[1])) if len(marks) == 1 else None)


def _between(nodes: Sequence[Node], marks: Sequence[str]) -> Shape | None:
    """Of nodes in ascending order."""
    index = next((i for i, node in enumerate(nodes) if _is_variable(node)), None)
    if index is None or len(nodes) > 3 or (len(nodes) == 3 and index != 1):
        return None
    if any(symbols(node) - {"infty"} for i, node in enumerate(nodes) if i != index):
        return None
    low, open_low = (nodes[0], marks[0] == "<") if index == 1 else (None, True)
    high, open_high = (nodes[index + 1], marks[index] == "<") if index + 1 < len(nodes) else (None, True)
    return Named(str(nodes[index].name), interval(low, high, open_low=open_low, open_high=open_high))  # type: ignore[union-attr]


def _is_variable(node: Node) -> bool:
    return isinstance(node, Symbol) and bool(symbols(node) - {"infty"})


def _around(nodes: Sequence[Node], mark: str) -> Shape | None:
    """|x - a| < c, c < |x - a| and x != a."""
    left, right = nodes
    if mark == r"\ne":
        both = without([right]) if isinstance(left, Symbol) and not symbols(right) else None
        return Named(left.name, both) if isinstance(left, Symbol) and both else None
    inside = isinstance(left, Call) and left.name == "abs"
    size, bound = (left, right) if inside else (right, left)
    if not isinstance(size, Call) or size.name != "abs" or symbols(bound):
        return None
    argument = size.args[0]
    terms = argument.args if isinstance(argument, Call) and argument.name == "+" else (argument, Number(Fraction(0)))
    symbol, shift = terms[0], terms[1]
    if len(terms) != 2 or not isinstance(symbol, Symbol) or symbols(shift):
        return None
    low, high, is_open = minus(Call("neg", (bound,)), shift), minus(bound, shift), mark == "<"
    if inside:
        return Named(symbol.name, interval(low, high, open_low=is_open, open_high=is_open))
    return Named(symbol.name, Union((interval(None, low, open_high=is_open), interval(high, None, open_low=is_open))))
