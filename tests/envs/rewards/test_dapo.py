from typing import Any

import pytest

from surefoot.envs.rewards import dapo
from surefoot.types.errors import HookError, RewardError


def got(response: str, label: Any, **params: Any) -> float:
    return dapo.score("q", response, label, {}, **params)


@pytest.mark.parametrize(
    ("response", "label", "expected"),
    [
        ("Answer: 34", "34", 1),
        ("Answer: 34", 34, 1),
        ("Answer: 34", 34.0, 1),
        ("Answer: 7", "007", 1),
        ("Answer: 35", 34, -1),
        ("34", 34, -1),
        ("", 34, -1),
        ("Answer:", 34, -1),
        ("Answer:\n34", 34, 1),
        ("answer : 34.", 34, 1),
        ("**Answer:** 34", 34, 1),
        ("**Answer**: $34$", 34, 1),
        (r"Answer: \boxed{34}", 34, 1),
        (r"Answer: \(34\)", 34, 1),
        ("Answer: $x = 34$", 34, 1),
        ("Answer: 34 degrees", 34, 1),
        (r"Answer: 34^\circ", 34, 1),
        ("Answer: 1,234", 1234, 1),
        ("Answer: 33\nAnswer: 34", 34, 1),
        ("Answer: 33 Answer: 34", 34, 1),
        ("Answer: 34\nAnswer: 33", 34, -1),
        ("Answer: 34\nThat was fun.", 34, 1),
        ("Answer: 34 or 35", 34, -1),
        ("Answer: 34, 35", 34, -1),
        ("Answer: -34", 34, -1),
        ("Answer: 2", "2.5", -1),
        ("Answer: 2.50", "2.5", 1),
        ("Answer: 9007199254740996", 9007199254740995, -1),
        ("Answer: 9007199254740995", "9007199254740995", 1),
        ("Answer: 1", "1e400", -1),
        (r"Answer: \dfrac{1}{2}", r"\frac{1}{2}", 1),
        (r"Answer: \frac{1}{3}", r"\frac{1}{2}", -1),
        (r"Answer: ( 1 , 2 )", "(1,2)", 1),
        ("Answer: 34" + " " * 300, 34, -1),  # beyond the last 300 characters
        ("Answer: 34" + " " * 290, 34, 1),
    ],
)
def test_score(response: str, label: object, expected: float) -> None:
    assert got(response, label) == expected


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (r"Answer: 33, so \boxed{34}", 1),
        (r"\boxed{34}, no, \boxed{33}", -1),
        ("Answer: 34", -1),
        (r"\boxed{34", -1),
    ],
)
def test_strict_box(response: str, expected: float) -> None:
    assert got(response, 34, strict_box=True) == expected


def test_wrong_is_an_option() -> None:
    assert got("Answer: 1", 2, wrong=0) == 0
    assert got("Answer: 2", 2, wrong=0) == 1
    for wrong in (1.0, float("nan"), True, "0"):
        with pytest.raises(HookError, match="wrong"):
            dapo.check(2, {}, wrong=wrong)


@pytest.mark.parametrize("label", [None, True, ["3"], [], {"a": 1}, float("nan"), float("inf"), "", "  ", "$$", "x ="])
def test_labels_that_say_nothing(label: object) -> None:
    with pytest.raises(RewardError, match="label"):
        dapo.check(label, {})
    with pytest.raises(RewardError, match="label"):
        got("Answer: 3", label)


@pytest.mark.parametrize("label", [7, 7.0, "007", "-7", r"\boxed{7}", "x"])
def test_labels_that_can_be_matched(label: object) -> None:
    dapo.check(label, {})
    assert got(f"Answer: {label}", label) == 1


def test_answer_is_what_is_compared() -> None:
    assert dapo.answer("Answer: 4 kg\nBye") == "4 kg"
    assert dapo.answer("none") is None
    assert dapo.answer(r"\boxed{4}", wrong=0.0, strict_box=True) == "4"
