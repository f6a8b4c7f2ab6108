from typing import Any

import pytest

from surefoot.envs.rewards import deepscaler
from surefoot.types.errors import HookError, RewardError


def got(response: str, label: Any, **params: Any) -> float:
    return deepscaler.score("q", response, label, {}, **params)


@pytest.mark.parametrize(
    ("response", "label", "required", "optional"),
    [
        (r"<think>hm</think>\boxed{4}", "4", 1, 1),
        (r"hm</think>\boxed{4}", "4", 1, 1),
        (r"\boxed{4}", "4", 0, 1),
        (r"###Response \boxed{4}", "4", 1, 1),
        (r"<think>\boxed{4}", "4", 0, 0),
        (r"<think>\boxed{4}</think>", "4", 0, 0),
        (r"<think>\boxed{4}</think>\boxed{5}", "4", 0, 0),
        (r"<think>\boxed{5}</think>\boxed{4}", "4", 1, 1),
        (r"</think>\boxed{5}</think>\boxed{4}", "4", 1, 1),
        (r"</think>\boxed{5}, \boxed{4}", "4", 1, 1),
        (r"</think>\boxed{4}<think>and again", "4", 0, 0),
        ("</think>4", "4", 0, 0),
        (r"</think>\boxed{\frac{2}{4}}", r"\boxed{\frac12}", 1, 1),
        (r"</think>\boxed{0.5}", ["7", "1/2"], 1, 1),
        (r"</think>\boxed{0.5}", ["7", "8"], 0, 0),
        (r"</think>\boxed{42}", 42, 1, 1),
        (r"</think>\boxed{7}", 7.0, 1, 1),
        (r"</think>\boxed{9007199254740996}", 9007199254740995, 0, 0),
        ("", "4", 0, 0),
    ],
)
def test_score(response: str, label: object, required: float, optional: float) -> None:
    assert got(response, label) == required
    assert got(response, label, thinking="optional") == optional


@pytest.mark.parametrize("label", [None, True, [], [None], ["4", None], [["4"]], {"a": 1}, float("nan"), "", "  "])
def test_labels_that_say_nothing(label: object) -> None:
    with pytest.raises(RewardError, match="label"):
        deepscaler.check(label, {})
    with pytest.raises(RewardError, match="label"):
        got("no answer", label)


def test_labels_that_can_be_matched() -> None:
    for label in (7, 7.0, "007", [7, "8"], ("7",)):
        deepscaler.check(label, {})


def test_unknown_option() -> None:
    with pytest.raises(HookError, match="'optional'"):
        deepscaler.check("4", {}, thinking="optinal")


def test_answer_is_what_is_graded() -> None:
    assert deepscaler.answer(r"<think>\boxed{1}</think>\boxed{2}") == "2"
    assert deepscaler.answer(r"\boxed{2}") is None
    assert deepscaler.answer(r"\boxed{2}", thinking="optional") == "2"
