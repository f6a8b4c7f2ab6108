"""What an answer can be: a quantity, a list, a tuple or interval, an equation, a matrix, words."""

from dataclasses import dataclass
from fractions import Fraction

from surefoot.envs.rewards.mathematics.expression import Call, Node, Number, Symbol

INFINITY = Symbol("infty")


@dataclass(frozen=True, slots=True)
class Quantity:
    node: Node
    unit: str = ""
    percent: bool = False  # the node is the number in front of the sign


@dataclass(frozen=True, slots=True)
class Words:
    text: str


@dataclass(frozen=True, slots=True)
class Choice:
    letter: str
    lettered_text: bool  # "(B) 12" and not "B" alone


@dataclass(frozen=True, slots=True)
class Formula:
    """LaTeX that the grammar does not know, such as an integral: left to math-verify."""

    text: str


@dataclass(frozen=True, slots=True)
class Items:
    """A bare list, such as the solutions 2 and 7: the order says nothing."""

    items: "tuple[Shape, ...]"


@dataclass(frozen=True, slots=True)
class SetOf:
    items: "tuple[Shape, ...]"


@dataclass(frozen=True, slots=True)
class Bracket:
    """A point, a vector or an interval: which of them, (1, 2) does not say, and equality need not know."""

    opening: str
    items: "tuple[Shape, ...]"
    closing: str


@dataclass(frozen=True, slots=True)
class Union:
    parts: "tuple[Shape, ...]"


@dataclass(frozen=True, slots=True)
class Matrix:
    rows: "tuple[tuple[Shape, ...], ...]"


@dataclass(frozen=True, slots=True)
class Ratio:
    terms: tuple[Node, ...]
    time: bool = False  # it may be a time of day, such as 3:30


@dataclass(frozen=True, slots=True)
class Named:
    """x = 5, f(x) = x^2, x in [0, 1)."""

    name: str
    value: "Shape"


@dataclass(frozen=True, slots=True)
class Assigned:
    """x = 1, y = 2: values by name, as they were written."""

    pairs: "tuple[tuple[str, Shape], ...]"


@dataclass(frozen=True, slots=True)
class Relation:
    """left - right `mark` 0, with mark one of = < <= != and kin."""

    mark: str
    difference: Node


@dataclass(frozen=True, slots=True)
class Approximate:
    r"""\sqrt{10} \approx 3.16 says both."""

    exact: "Shape"
    about: "Shape"


Shape = (
    Quantity | Words | Choice | Formula | Items | SetOf | Bracket | Union | Matrix | Ratio | Named | Assigned | Relation
    | Approximate
)  # fmt: skip


def minus(left: Node, right: Node) -> Node:
    return Call("+", (left, Call("neg", (right,))))


def hundredth(node: Node) -> Node:
    return Call("/", (node, Number(Fraction(100))))


REALS = Bracket("(", (Quantity(Call("neg", (INFINITY,))), Quantity(INFINITY)), ")")
EMPTY = SetOf(())
