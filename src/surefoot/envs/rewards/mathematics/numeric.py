"""Whether two expressions are equal, by their values: exact where they are fractions, else to thousands of digits.

A tolerance cannot tell 1/1500! from 1/1501!, nor zero from a rounding error. Here a difference is computed with more
and more digits: that of equals shrinks with them, any other stays what it is.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from surefoot.envs.rewards.mathematics.exact import Inexact, TooLarge, Undefined, exact_value
from surefoot.envs.rewards.mathematics.expression import Call, Node, Number, Symbol, symbols

DIGITS = (50, 150, 5000)
MAX_BITS = 15_000  # of a magnitude; below the bits of the most digits, so that adding 1 is never lost
POINTS = 8  # at which expressions with symbols are compared
MIN_POINTS = 3  # where both have values
INTEGERS = frozenset("nkm")  # by custom; only their positive integer values count

Point = Mapping[str, Fraction]


def equal_values(a: Node, b: Node) -> bool:
    """Whether a and b have one value wherever both have any. Numbers too large to compute equal only what is
    written the same way."""
    if a == b:
        return True
    names = symbols(a) | symbols(b)
    if not names:
        return _equal_at(a, b, {}) is True
    # A constant that only thousands of digits show is the same at every point: one gets them all.
    verdicts = [_equal_at(a, b, point, DIGITS if i == 0 else DIGITS[:2]) for i, point in enumerate(_points(names))]
    return False not in verdicts and verdicts.count(True) >= MIN_POINTS


def proportional(a: Node, b: Node) -> Fraction | None:
    """1 or -1, the sign of the constant c with a = c b, both not zero everywhere; None where there is no such c."""
    names = symbols(a) | symbols(b)
    points = _points(names) if names else [{}]
    origin = next((p for p in points if _sign(a, p) and _sign(b, p)), None)
    if origin is None:
        return None
    for point in points:
        cross = (Call("*", (_fixed(a, point), _fixed(b, origin))), Call("*", (_fixed(b, point), _fixed(a, origin))))
        if _equal_at(*cross, {}, DIGITS[:2]) is False:
            return None
    return Fraction(_sign(a, origin) * _sign(b, origin))


def real_value(node: Node) -> Any:
    """An mpf to 50 digits of a real constant, plus or minus infinity included. Raises `Inexact` for anything else."""
    import mpmath

    with mpmath.workdps(DIGITS[0]):
        infinite = {Symbol("infty"): mpmath.inf, Call("neg", (Symbol("infty"),)): -mpmath.inf}
        if node in infinite:
            return infinite[node]
        value = _number(node, {}, mpmath)
        if mpmath.im(value) != 0 or symbols(node):
            raise Inexact
        return mpmath.re(value)


def _points(names: frozenset[str]) -> list[dict[str, Fraction]]:
    return [{name: _coordinate(name, index) for name in names} for index in range(POINTS)]


def _coordinate(name: str, index: int) -> Fraction:
    """A number that is related to no other: from a hash, so that every process takes the same."""
    random = int.from_bytes(hashlib.sha256(f"{name}:{index}".encode()).digest()[:4], "big")
    if name in INTEGERS:
        return Fraction(3 + index + random % 2 * POINTS)
    size = Fraction(random % 2500 + 200, 997)
    return size if index % 2 == 0 else -size if index % 4 == 1 else size / 3


def _fixed(node: Node, point: Point) -> Node:
    if isinstance(node, Symbol):
        return Number(point[node.name]) if node.name in point else node
    return Call(node.name, tuple(_fixed(arg, point) for arg in node.args)) if isinstance(node, Call) else node


def _sign(node: Node, point: Point) -> int:
    try:
        value = real_value(_fixed(node, point))
    except (Inexact, TooLarge, Undefined):
        return 0
    return int(value > 0) - int(value < 0)


def _equal_at(a: Node, b: Node, point: Point, precisions: Sequence[int] = DIGITS) -> bool | None:
    """None where one of them has no value, or none that can be computed."""
    try:
        return exact_value(a, point) == exact_value(b, point)
    except Inexact:
        return _equal_in_digits(a, b, point, precisions)
    except (TooLarge, Undefined):
        return None


def _equal_in_digits(a: Node, b: Node, point: Point, precisions: Sequence[int]) -> bool | None:
    import mpmath

    before = None
    for digits in precisions:
        with mpmath.workdps(digits):
            try:
                left, right = _number(a, point, mpmath), _number(b, point, mpmath)
            except (TooLarge, Undefined, Inexact):
                return None
            difference, scale = abs(left - right), max(abs(left), abs(right))
            if before is not None and not _shrinks(before[1], difference, scale, before[0], digits, mpmath):
                return False
            before = (digits, difference)
    return True


def _shrinks(before: Any, now: Any, scale: Any, digits_before: int, digits: int, mpmath: Any) -> bool:
    if now == 0:
        return True
    if before == 0:  # by luck, or because the digits did not reach the difference
        return bool(now < scale * mpmath.mpf(10) ** (10 - digits))
    return bool(now < before * mpmath.mpf(10) ** (-(digits - digits_before) // 2))


def _number(node: Node, point: Point, mpmath: Any) -> Any:
    """The node's value in mpmath's working precision, real or complex."""
    try:
        value = _evaluate(node, point, mpmath)
    except ZeroDivisionError as error:
        raise Undefined from error
    except (ValueError, OverflowError, NotImplementedError) as error:
        raise Undefined from error
    if not mpmath.isfinite(value):
        raise Undefined
    return value


def _evaluate(node: Node, point: Point, mpmath: Any) -> Any:
    if isinstance(node, Number):
        return mpmath.mpf(node.value.numerator) / node.value.denominator
    if isinstance(node, Symbol):
        return _symbol(node.name, point, mpmath)
    args = [_evaluate(arg, point, mpmath) for arg in node.args]
    if node.name == "^" and (degree := _odd_degree(node.args[1], point)):
        value = _power(_root(args[0], mpmath.mpf(degree), mpmath), mpmath.nint(args[1] * degree), mpmath)
    else:
        value = _rule(node.name, mpmath)(*args)
    # A rounding error may be as small as it likes; a small number made of ordinary ones would be lost when added.
    lost = node.name in ("/", "^", "root") and _is_tiny(value, mpmath) and not any(_is_tiny(x, mpmath) for x in args)
    if lost or (value != 0 and mpmath.mag(value) > MAX_BITS):
        raise TooLarge
    return value


def _symbol(name: str, point: Point, mpmath: Any) -> Any:
    constants = {"pi": mpmath.pi, "e": mpmath.e, "i": mpmath.mpc(0, 1)}
    if name in constants:
        return +constants[name]
    if name not in point:
        raise Inexact(name)
    return mpmath.mpf(point[name].numerator) / point[name].denominator


def _odd_degree(exponent: Node, point: Point) -> int:
    """3 for x^{2/3}, which like the cube root is real for all real x; 0 where the exponent has no odd denominator."""
    try:
        degree = exact_value(exponent, point).denominator
    except (Inexact, TooLarge, Undefined):
        return 0
    return degree if 1 < degree < 64 and degree % 2 == 1 else 0


def _is_tiny(value: Any, mpmath: Any) -> bool:
    return value != 0 and bool(mpmath.mag(value) < -MAX_BITS)


def _rule(name: str, mpmath: Any) -> Callable[..., Any]:
    rules: dict[str, Callable[..., Any]] = {
        "+": lambda *terms: sum(terms, mpmath.mpf(0)),
        "*": lambda x, y: x * y,
        "/": lambda x, y: x / y,
        "neg": lambda x: -x,
        "abs": abs,
        "^": lambda x, y: _power(x, y, mpmath),
        "root": lambda x, n: _root(x, n, mpmath),
        "!": lambda x: _small(mpmath.gamma, x + 1, 3000),
        "binom": lambda n, k: _small(lambda m: mpmath.binomial(m, k), n, 3000),
        "exp": _limited(mpmath.exp, MAX_BITS),
        "log": lambda x, base=10: mpmath.log(x) / mpmath.log(base),
        "lg": lambda x: mpmath.log(x) / mpmath.log(10),
        "ln": mpmath.log,
        **{f"arc{f}": getattr(mpmath, f"a{f}") for f in ("sin", "cos", "tan", "cot")},
        "floor": mpmath.floor,
        "ceil": mpmath.ceil,
        **{f: _limited(getattr(mpmath, f), MAX_BITS) for f in ("sinh", "cosh", "tanh")},
        **{f: _limited(getattr(mpmath, f), 10**30) for f in ("sin", "cos", "tan", "cot", "sec", "csc")},
    }
    return rules[name]


def _limited(function: Callable[[Any], Any], limit: int) -> Callable[[Any], Any]:
    return lambda x: _small(function, x, limit)


def _small(function: Callable[[Any], Any], x: Any, limit: int) -> Any:
    """Functions that take time or memory in their argument's size."""
    if abs(x) > limit:
        raise TooLarge
    return function(x)


def _power(x: Any, y: Any, mpmath: Any) -> Any:
    if x == 0:
        if mpmath.re(y) <= 0:
            raise Undefined
        return x
    if abs(y) * (abs(mpmath.mag(x)) + 1) > 4 * MAX_BITS:
        raise TooLarge
    return mpmath.power(x, y)


def _root(x: Any, n: Any, mpmath: Any) -> Any:
    if n == 0 or mpmath.im(n) != 0:
        raise Undefined
    if mpmath.im(x) == 0 and mpmath.re(x) < 0 and n == int(n) and int(n) % 2 == 1:
        return -mpmath.power(-x, 1 / n)  # the real root, as schools have it
    return mpmath.power(x, 1 / n)
