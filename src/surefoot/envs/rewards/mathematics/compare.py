"""Whether an answer is the label, shape by shape."""

import re
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from surefoot.envs.rewards.mathematics import symbolic
from surefoot.envs.rewards.mathematics.clean import clean
from surefoot.envs.rewards.mathematics.expression import Call, Node, Number, Symbol
from surefoot.envs.rewards.mathematics.numeric import equal_values, proportional
from surefoot.envs.rewards.mathematics.read import read
from surefoot.envs.rewards.mathematics.shape import (
    INFINITY,
    Approximate,
    Assigned,
    Bracket,
    Choice,
    Formula,
    Items,
    Matrix,
    Named,
    Quantity,
    Ratio,
    Relation,
    SetOf,
    Shape,
    Union,
    Words,
    hundredth,
    minus,
)
from surefoot.envs.rewards.mathematics.units import same_unit

MAX_LENGTH = 1000  # characters; longer answers are not read
MAX_ITEMS = 40  # of a list


def is_right(gold: str, answer: str) -> bool:
    r"""Whether `answer`, in LaTeX or plain, says what `gold` says.

    >>> is_right("1/2", r"\dfrac{2}{4}"), is_right("2,7", "27"), is_right("12.5%", "0.125"), is_right("9", "9 kg")
    (True, False, True, True)
    """
    if len(answer) > MAX_LENGTH or len(gold) > MAX_LENGTH:
        return False
    gold, answer = clean(gold), clean(answer)
    return bool(answer) and same(_gold_shape(gold), read(answer))


@lru_cache(maxsize=1024)
def _gold_shape(gold: str) -> Shape:
    """A label is read once for all answers of its group."""
    return read(gold)


def same(gold: Shape, answer: Shape) -> bool:
    """Equality of shapes. Names may be left out; whatever else is written on both sides must agree."""
    if isinstance(answer, Approximate):
        return same(gold, answer.exact) or same(gold, answer.about)
    if isinstance(gold, Approximate):
        return same(gold.exact, answer) or same(gold.about, answer)
    if isinstance(gold, Named) or isinstance(answer, Named):
        return _same_named(gold, answer)
    if isinstance(gold, Assigned) or isinstance(answer, Assigned):
        return _same_assigned(gold, answer)
    if isinstance(gold, Formula) or isinstance(answer, Formula):
        return _same_formula(gold, answer)
    if isinstance(gold, Items | SetOf) or isinstance(answer, Items | SetOf):
        return _same_lists(gold, answer)
    if isinstance(gold, Ratio) or isinstance(answer, Ratio):
        return _same_ratio(gold, answer)
    return _same_kind(gold, answer)


def _same_kind(gold: Shape, answer: Shape) -> bool:
    if isinstance(gold, Quantity) and isinstance(answer, Quantity):
        return _same_quantity(gold, answer)
    if isinstance(gold, Bracket) and isinstance(answer, Bracket):
        ends = (gold.opening, gold.closing) == (answer.opening, answer.closing)
        return ends and _in_order(gold.items, answer.items)
    if isinstance(gold, Union) and isinstance(answer, Union):
        return _in_any_order(gold.parts, answer.parts)
    if isinstance(gold, Matrix) and isinstance(answer, Matrix):
        return len(gold.rows) == len(answer.rows) and all(map(_in_order, gold.rows, answer.rows))
    if isinstance(gold, Relation) and isinstance(answer, Relation):
        return _same_relation(gold, answer)
    if isinstance(gold, Choice) and isinstance(answer, Choice):
        return gold.letter == answer.letter
    return isinstance(gold, Words) and gold == answer and bool(gold.text)


def _same_quantity(gold: Quantity, answer: Quantity) -> bool:
    """A label's percent sign is a unit that may be left out; an answer's is a hundredth."""
    if not same_unit(gold.unit, answer.unit):
        return False
    if gold.percent == answer.percent:
        return equal_values(gold.node, answer.node)
    if answer.percent:
        return equal_values(gold.node, hundredth(answer.node))
    return equal_values(hundredth(gold.node), answer.node) or equal_values(gold.node, answer.node)


def _same_named(gold: Shape, answer: Shape) -> bool:
    if isinstance(gold, Named) and isinstance(answer, Named):
        return gold.name == answer.name and same(gold.value, answer.value)
    if isinstance(gold, Relation) or isinstance(answer, Relation):
        return _same_kind(_as_relation(gold), _as_relation(answer))
    return same(*(shape.value if isinstance(shape, Named) else shape for shape in (gold, answer)))


def _as_relation(shape: Shape) -> Shape:
    """y = 2x + 1 and x > 2 as the relations they also are."""
    if not isinstance(shape, Named) or not re.fullmatch("[a-zA-Z]", shape.name):
        return shape
    name, value = Symbol(shape.name), shape.value
    if isinstance(value, Quantity):
        return Relation("=", minus(name, value.node))
    if not isinstance(value, Bracket) or not all(isinstance(end, Quantity) for end in value.items):
        return shape
    low, high = (end.node for end in value.items if isinstance(end, Quantity))
    if low == Call("neg", (INFINITY,)):
        return Relation("<" if value.closing == ")" else r"\le", minus(name, high))
    return Relation("<" if value.opening == "(" else r"\le", minus(low, name)) if high == INFINITY else shape


def _same_assigned(gold: Shape, answer: Shape) -> bool:
    """Values by name; without names, in the label's order, or in alphabetical order where the label has no names."""
    if not isinstance(answer, Assigned):
        return _in_order(_values(gold), _values(answer))
    ordered = Assigned(tuple(sorted(answer.pairs, key=lambda pair: pair[0])))
    if not isinstance(gold, Assigned):
        return _in_order(_values(gold), _values(ordered))
    pairs = sorted(gold.pairs, key=lambda pair: pair[0])
    names = [name for name, _ in pairs] == [name for name, _ in ordered.pairs]
    return names and _in_order([value for _, value in pairs], _values(ordered))


def _values(shape: Shape) -> Sequence[Shape]:
    if isinstance(shape, Assigned):
        return [value for _, value in shape.pairs]
    if isinstance(shape, Items) or (isinstance(shape, Bracket) and (shape.opening, shape.closing) == ("(", ")")):
        return shape.items
    return [shape]


def _same_formula(gold: Shape, answer: Shape) -> bool:
    if not isinstance(gold, Formula) or not isinstance(answer, Formula):
        return False
    if re.sub(r"\s", "", gold.text) == re.sub(r"\s", "", answer.text):
        return True
    return symbolic.equivalent(gold.text, answer.text)


def _same_lists(gold: Shape, answer: Shape) -> bool:
    """A bare list may stand for a set, or for a point in its order."""
    for one, other in ((gold, answer), (answer, gold)):
        if isinstance(one, Items) and isinstance(other, Bracket):
            return (other.opening, other.closing) == ("(", ")") and _in_order(one.items, other.items)
    if isinstance(gold, SetOf) and isinstance(answer, SetOf):
        return _in_any_order(_distinct(gold.items), _distinct(answer.items))
    return _in_any_order(*(s.items if isinstance(s, Items | SetOf) else (s,) for s in (gold, answer)))


def _distinct(items: Sequence[Shape]) -> list[Shape]:
    kept: list[Shape] = []
    if len(items) > MAX_ITEMS:
        return list(items)
    for item in items:
        if not any(same(item, other) for other in kept):
            kept.append(item)
    return kept


def _in_order(gold: Sequence[Shape], answer: Sequence[Shape]) -> bool:
    return len(gold) == len(answer) and all(map(same, gold, answer))


def _in_any_order(gold: Sequence[Shape], answer: Sequence[Shape]) -> bool:
    if len(gold) != len(answer) or len(gold) > MAX_ITEMS:
        return False
    left = list(answer)
    for item in gold:
        match = next((i for i, other in enumerate(left) if same(item, other)), None)
        if match is None:
            return False
        left.pop(match)
    return True


def _same_ratio(gold: Shape, answer: Shape) -> bool:
    """3:4 is 6:8, and 3/4; a time of day is only itself."""
    first, second = _terms(gold), _terms(answer)
    if len(first) != len(second) or len(first) < 2:
        return False
    if any(isinstance(shape, Ratio) and shape.time for shape in (gold, answer)):
        return all(map(equal_values, first, second))
    if any(equal_values(term, Number(Fraction(0))) for term in (*first, *second)):
        return False
    return all(
        equal_values(Call("*", (first[0], b)), Call("*", (second[0], a)))
        for a, b in zip(first[1:], second[1:], strict=True)
    )


def _terms(shape: Shape) -> tuple[Node, ...]:
    if isinstance(shape, Ratio):
        return shape.terms
    if isinstance(shape, Quantity) and isinstance(shape.node, Call) and shape.node.name == "/":
        return shape.node.args
    return (shape.node, Number(Fraction(1))) if isinstance(shape, Quantity) else ()


def _same_relation(gold: Relation, answer: Relation) -> bool:
    """One is the other times a constant; of inequalities, times a positive one."""
    factor = proportional(gold.difference, answer.difference)
    return gold.mark == answer.mark and factor is not None and (gold.mark in ("=", r"\ne") or factor > 0)
