"""Expected values from the number forms of f2, https://github.com/EleutherAI/lm-evaluation-harness/issues/4038."""

import time
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.envs.rewards.extract import EXTRACTORS, exact_number, get_extractor, last_number
from surefoot.types.errors import HookError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,234", "1234"),
        ("48{,}250", "48250"),
        ("1,234,567.25", "1234567.25"),
        ("2,7", "7"),
        ("52,18", "18"),
        ("1,23,456", "456"),
        ("12,34,567", "567"),
        ("1234,567", "567"),
        ("1,2345", "2345"),
        ("0,123", "123"),
        ("-8", "-8"),
        ("x = -8.", "-8"),
        ("−8", "-8"),
        ("+8", "8"),
        ("5-8", "8"),
        ("(1)-8", "8"),
        ("n-8", "8"),
        ("10 - 8", "8"),
        ("3.5", "3.5"),
        ("The answer is 3.50.", "3.50"),
        ("is .5", ".5"),
        ("wait...5", "5"),
        ("No.5", "5"),
        ("1.2.3", "3"),
        ("007", "007"),
        ("12.5%", "12.5"),
        ("9\\text{ kg}", "9"),
        ("1e400", "1e400"),
        ("2.5E-3 m", "2.5E-3"),
        ("first 17, then **42**", "42"),
        ("$-8$", "-8"),
        ("", None),
        ("no number, none.", None),
        ("٣", None),
        ("-", None),
    ],
)
def test_last_number(text: str, expected: str | None) -> None:
    assert last_number(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" 48,250\n", Decimal(48250)),
        ("-3.50", Decimal("-3.5")),
        ("+7", Decimal(7)),
        ("1e400", Decimal("1e400")),
        ("1e+22", Decimal(10) ** 22),
        ("2,7", None),
        ("12 kg", None),
        ("1 2", None),
        ("1_000", None),
        ("nan", None),
        ("Infinity", None),
        ("1e9999999", None),
        ("", None),
    ],
)
def test_exact_number(text: str, expected: Decimal | None) -> None:
    assert exact_number(text) == expected


@settings(max_examples=100, deadline=None)
@given(st.integers(-(10**30), 10**30), st.sampled_from(["", ".", " apples", "%", ",", "\n", ")"]))
def test_any_integer_plain_or_grouped_is_found(number: int, tail: str) -> None:
    assert last_number(f"17 and so {number}{tail}") == str(number)
    assert last_number(f"17 and so {number:,}{tail}") == str(number)
    assert exact_number(f"{number:,}") == number


@settings(max_examples=100, deadline=None)
@given(st.text("0123456789,.-+eE{} x", max_size=30))
def test_what_is_found_is_a_number_of_the_text(text: str) -> None:
    found = last_number(text)
    assert (found is None) == (not any(character.isdigit() for character in text))
    if found is not None:
        assert exact_number(found) is not None
        assert found.lstrip("-") in text.replace("{,}", "").replace(",", "")


@pytest.mark.parametrize("piece", ["1,", "1,234,", "234,234", "9", "1.", "1e", "{,}1", "-", "1e999999"])
def test_long_responses_take_linear_time(piece: str) -> None:
    begin = time.perf_counter()
    last_number(piece * 20_000)
    exact_number(piece * 20_000 + "x")
    assert time.perf_counter() - begin < 2  # a quadratic pattern takes minutes


def test_table() -> None:
    assert get_extractor("none")(" as it is ") == " as it is "
    assert set(EXTRACTORS) == {"none", "last_number"}
    with pytest.raises(HookError, match="'last_nubmer'; did you mean 'last_number'"):
        get_extractor("last_nubmer")
    with pytest.raises(HookError, match="known are none, last_number"):
        get_extractor(["boxed"])  # type: ignore[arg-type]
