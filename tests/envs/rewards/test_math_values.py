"""Equality of values: exact for fractions, to thousands of digits for the rest, never by a tolerance."""

from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from surefoot.envs.rewards.mathematics.exact import Inexact, TooLarge, Undefined, exact_value
from surefoot.envs.rewards.mathematics.expression import Call, Node, Number, Symbol, Unreadable, parse_expression
from surefoot.envs.rewards.mathematics.numeric import equal_values, proportional
from surefoot.envs.rewards.mathematics.symbolic import equivalent

POINT = {"x": Fraction(-3, 2), "y": Fraction(5)}
LEAVES = st.one_of(
    st.fractions(-50, 50, max_denominator=9).map(Number), st.sampled_from([Symbol("x"), Symbol("y")])
)  # fmt: skip
TREES = st.recursive(
    LEAVES, lambda inner: st.builds(Call, st.sampled_from("+*/"), st.tuples(inner, inner)), max_leaves=8
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-2^2", -4),
        ("2^3^2", 512),
        ("1/2x", Fraction(-3, 4)),
        ("2x^2", Fraction(9, 2)),
        ("6/2*3", 9),
        ("5-3-1", 1),
        ("-3!", -6),
        ("2(3)(4)", 24),
        (r"\sqrt[3]{-27}", -3),
        ("8^{2/3}", 4),
        (r"2\frac12x", Fraction(-15, 4)),
        (r"x^2\frac{1}{2}", Fraction(9, 8)),
        (r"\log_28", None),
        (r"\binom52", 10),
        ("|x|", Fraction(3, 2)),
        (r"\lfloor x \rfloor", -2),
        (r"0.1\overline{6}", Fraction(1, 6)),
        ("1.5e3", 1500),
    ],
)
def test_grammar(text: str, value: Fraction | int | None) -> None:
    if value is None:
        with pytest.raises(Inexact):
            exact_value(parse_expression(text), POINT)
    else:
        assert exact_value(parse_expression(text), POINT) == value


@pytest.mark.parametrize("text", ["", "1+", "(1", "1)", "2 3", "x2", "1..2", "5!!", r"\foo", "()", "_", "1_2", "0.(3)"])
def test_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        parse_expression(text)


@pytest.mark.parametrize("text", ["(" * 41 + "1" + ")" * 41, "x^{" * 41 + "1" + "}" * 41, "2" + "^2" * 41, "x " * 101])
def test_depth_is_bounded(text: str) -> None:
    with pytest.raises(Unreadable, match=r"deep|high"):
        parse_expression(text)


@pytest.mark.parametrize(
    ("text", "error"), [("1/0", Undefined), ("(-1)!", Undefined), ("2^{2^{99}}", TooLarge), (r"\sqrt2", Inexact)]
)
def test_no_exact_value(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        exact_value(parse_expression(text), POINT)


@given(TREES, TREES, st.integers(1, 10**6))
def test_identities_hold_and_a_tiny_change_breaks_them(a: Node, b: Node, size: int) -> None:
    left, right = Call("*", (Call("+", (a, b)), a)), Call("+", (Call("*", (a, a)), Call("*", (b, a))))
    try:
        exact_value(left, POINT)
    except (Undefined, TooLarge):
        assume(False)
    tiny = Number(Fraction(1, 10**30 + size))
    assert equal_values(left, right)
    assert not equal_values(left, Call("+", (right, tiny)))


@pytest.mark.parametrize("exponent", [20, 60, 1000, 3000])
def test_irrational_numbers_differ_by_however_little(exponent: int) -> None:
    root = parse_expression(r"\sqrt{3+2\sqrt2}")
    assert equal_values(root, parse_expression(r"1+\sqrt2"))
    assert not equal_values(root, parse_expression(rf"1+\sqrt2+10^{{-{exponent}}}"))


@pytest.mark.parametrize(
    ("a", "b", "sign"),
    [("2x-4", "x-2", 1), ("2-x", "x-2", -1), ("x-2", "x-3", None), ("x-x", "x", None), ("x^2", "x", None)],
)
def test_proportional(a: str, b: str, sign: int | None) -> None:
    assert proportional(parse_expression(a), parse_expression(b)) == sign


@pytest.mark.parametrize("exponent", [17, 30])
def test_what_math_verify_accepts_must_agree_in_digits(exponent: int) -> None:
    """It compares irrational numbers to 15 digits."""
    assert equivalent(r"\sqrt{2}+\sqrt{3}", r"\sqrt{3}+\sqrt{2}")
    assert not equivalent(r"\sqrt{2}+\sqrt{3}", rf"\sqrt{{2}}+\sqrt{{3}}+10^{{-{exponent}}}")
