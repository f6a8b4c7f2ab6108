from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.envs.rewards import f1
from surefoot.types.errors import HookError, RewardError


def got(response: str, label: Any, **params: Any) -> float:
    return f1.score("q", response, label, {}, **params)


@pytest.mark.parametrize(
    ("response", "label", "expected"),
    [
        ("Eiffel Tower", "Eiffel Tower", 1),
        ("the eiffel tower!", "Eiffel Tower", 1),
        ("Eiffel Tower in Paris", "Eiffel Tower", 2 * 2 / 6),
        ("tower", "Eiffel Tower", 2 * 1 / 3),
        ("cat cat cat", "cat", 2 * 1 / 4),
        ("cat", "cat cat cat", 2 * 1 / 4),
        ("dog", "cat", 0),
        ("", "cat", 0),
        ("the", "cat", 0),
        ("...", "cat", 0),
        ("U.S.", "us", 1),
        ("well-known", "wellknown", 1),
        ("dog", ["cat", "dog"], 1),
        ("small dog", ["cat", "dog"], 2 * 1 / 3),
        ("7", 7, 1),
        ("7", 7.0, 1),
        ("7.0", 7, 1),
        ("70", 7.0, 0),
        ("35", "3.5", 0),
        ("-8", "8", 0),
        ("It costs $1,234.", "it costs 1234", 1),
        ("9007199254740996", 9007199254740995, 0),
        ("STRASSE", "Straße", 1),
        ("cafe\u0301", "caf\u00e9", 1),
        ("“Zürich”，", "zürich", 1),
        ("東京都", "東京", 2 * 2 / 5),
        ("Ａ１ steak", "a1 steak", 1),
    ],
)
def test_score(response: str, label: object, expected: float) -> None:
    assert got(response, label) == pytest.approx(expected)


@given(
    st.lists(st.sampled_from(["red", "green", "blue", "3"]), min_size=1),
    st.lists(st.sampled_from(["red", "blue", "4"])),
)
def test_symmetric_and_bounded(one: list[str], other: list[str]) -> None:
    value = got(" ".join(other), " ".join(one))
    assert 0 <= value <= 1
    assert (value == 1) == (sorted(one) == sorted(other))
    if other:
        assert got(" ".join(one), " ".join(other)) == value


def test_only_what_follows_a_mark() -> None:
    assert got("cat cat. Answer: dog Answer: cat", "cat", after="Answer:") == 1
    assert got("cat", "cat", after="Answer:") == 0
    assert f1.answer("Answer: a dog ", after="Answer:") == "a dog"
    assert f1.answer("a dog", after="Answer:") is None
    assert f1.answer("a dog") is None
    with pytest.raises(HookError, match="after"):
        f1.check("cat", {}, after=3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "label", [None, True, [], [None], ["a cat", "the"], {"a": 1}, float("nan"), "", " ", "the", "?!"]
)
def test_labels_that_say_nothing(label: object) -> None:
    with pytest.raises(RewardError, match="label"):
        f1.check(label, {})
    with pytest.raises(RewardError, match="label"):
        got("cat", label)


@pytest.mark.parametrize("label", [7, 7.0, "007", ["7", 8]])
def test_labels_that_can_be_matched(label: object) -> None:
    f1.check(label, {})
    assert got("7", label) == 1
