from typing import Any

import pytest

from surefoot.envs import rewards
from surefoot.types.errors import HookError, RewardError

score = rewards.get("exact_match")


def got(response: str, label: Any, **params: Any) -> float:
    return score("q", response, label, {}, **params)


@pytest.mark.parametrize(
    ("response", "label", "expected"),
    [
        ("4", "4", 1),
        (" 4\n", "4", 1),
        ("4", " 4 ", 1),
        ("4.", "4", 0),
        ("42", 42, 1),
        ("042", 42, 0),
        ("7", "007", 0),
        ("007", "007", 1),
        ("cat", "Cat", 0),
        ("3", 3.0, 1),
        ("3.000", 3.0, 1),
        ("0.1", 0.1, 1),
        ("0.1000000000000000055", 0.1, 0),
        ("three", 3.0, 0),
        ("1e400", 1.5, 0),
        ("", "4", 0),
    ],
)
def test_whole_response(response: str, label: object, expected: float) -> None:
    assert got(response, label) == expected


def test_strip_off() -> None:
    assert got(" 4", "4", strip=False) == 0
    assert got(" 4", " 4", strip=False) == 1


@pytest.mark.parametrize(
    ("response", "label", "expected"),
    [
        ("It is 1,234.", "1234", 1),
        ("It is 1234", "1,234", 1),
        ("48{,}250", 48250, 1),
        ("52,18", "5218", 0),
        ("8", "-8", 0),
        ("-8", "-8", 1),
        ("9\\text{ kg}", "9", 1),
        ("3.50", "3.5", 1),
        ("9007199254740996", "9007199254740995", 0),
        ("4, or rather 5", 4, 0),
        ("none", "4", 0),
        ("1", "1e400", 0),
    ],
)
def test_last_number_is_compared_by_value(response: str, label: object, expected: float) -> None:
    assert got(response, label, extract="last_number") == expected


@pytest.mark.parametrize("label", [None, True, ["3"], {"a": 1}, float("nan"), float("inf"), "", "  "])
@pytest.mark.parametrize("extract", ["none", "last_number"])
def test_labels_that_say_nothing(label: object, extract: str) -> None:
    with pytest.raises(RewardError, match="label"):
        got("3", label, extract=extract)


@pytest.mark.parametrize("label", ["cat", "2,7", "4 apples"])
def test_a_label_that_no_number_can_match(label: str) -> None:
    with pytest.raises(RewardError, match="not one number"):
        got("2,7", label, extract="last_number")
    assert got(label, label) == 1


def test_unknown_extractor() -> None:
    with pytest.raises(HookError, match="did you mean 'last_number'"):
        got("4", "4", extract="last_numbr")
