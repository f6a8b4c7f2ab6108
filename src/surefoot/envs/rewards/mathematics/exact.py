"""The value of an expression as a fraction, where it has one, without ever computing a number too large to hold."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

from surefoot.envs.rewards.mathematics.expression import Call, Node, Number

MAX_BITS = 200_000  # of a numerator or denominator; 2^100000 is computed, 9^9^9^9 is not
MAX_FACTORIAL = 3000


class Inexact(Exception):
    """The value is irrational, complex, or depends on a symbol that has none here."""


class TooLarge(Exception):
    """The value is a number that nobody could hold or compare."""


class Undefined(Exception):
    """The expression has no value: a division by zero, a factorial of -1."""


def exact_value(node: Node, point: Mapping[str, Fraction]) -> Fraction:
    """The node's exact value where symbols have those of `point`. Raises `Inexact`, `TooLarge` or `Undefined`."""
    if isinstance(node, Number):
        return node.value
    if not isinstance(node, Call):
        if node.name not in point:
            raise Inexact(node.name)
        return point[node.name]
    if node.name not in _RULES:
        raise Inexact(node.name)
    return _bounded(_RULES[node.name]([exact_value(arg, point) for arg in node.args]))


def _bounded(value: Fraction) -> Fraction:
    if _bits(value) > MAX_BITS:
        raise TooLarge
    return value


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _product(args: list[Fraction]) -> Fraction:
    left, right = args
    return left * right


def _quotient(args: list[Fraction]) -> Fraction:
    top, bottom = args
    if bottom == 0:
        raise Undefined
    return top / bottom


def _power(args: list[Fraction]) -> Fraction:
    base, exponent = args
    if base == 0 and exponent <= 0:
        raise Undefined
    if exponent.denominator != 1:
        base, exponent = _root([base, Fraction(exponent.denominator)]), Fraction(exponent.numerator)
    if base in (0, 1):
        return base
    if base == -1:
        return Fraction(1 if exponent % 2 == 0 else -1)
    if abs(exponent) * (_bits(base) - 1 or 1) > MAX_BITS:
        raise TooLarge
    return Fraction(base ** int(exponent))


def _root(args: list[Fraction]) -> Fraction:
    """Exact where numerator and denominator are perfect powers; an odd root of a negative number is the real one."""
    value, degree = args
    if degree.denominator != 1 or not 1 <= degree <= 64:
        raise Inexact
    n = int(degree)
    if value < 0:
        if n % 2 == 0:
            raise Inexact
        return -_root([-value, degree])
    return Fraction(_integer_root(value.numerator, n), _integer_root(value.denominator, n))


def _integer_root(value: int, n: int) -> int:
    if n == 2:
        root = math.isqrt(value)
    else:
        root = 0
        for bit in reversed(range(value.bit_length() // n + 1)):
            if (root | 1 << bit) ** n <= value:
                root |= 1 << bit
    if root**n != value:
        raise Inexact
    return root


def _factorial(args: list[Fraction]) -> Fraction:
    (value,) = args
    if value.denominator != 1:
        raise Inexact
    if value < 0:
        raise Undefined
    if value > MAX_FACTORIAL:
        raise TooLarge
    return Fraction(math.factorial(int(value)))


def _binomial(args: list[Fraction]) -> Fraction:
    n, k = args
    if n.denominator != 1 or k.denominator != 1 or n < 0 or k < 0:
        raise Inexact
    if n > MAX_FACTORIAL:
        raise TooLarge
    return Fraction(math.comb(int(n), int(k)))


_RULES: dict[str, Callable[[list[Fraction]], Fraction]] = {
    "+": lambda args: sum(args, Fraction(0)),
    "*": _product,
    "/": _quotient,
    "^": _power,
    "neg": lambda args: -args[0],
    "abs": lambda args: abs(args[0]),
    "floor": lambda args: Fraction(math.floor(args[0])),
    "ceil": lambda args: Fraction(math.ceil(args[0])),
    "root": _root,
    "!": _factorial,
    "binom": _binomial,
}
