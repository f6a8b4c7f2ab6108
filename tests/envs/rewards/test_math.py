r"""The reward "math": where the answer stands, which labels are refused, numbers by their exact value."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.envs.rewards.math import answer, check, score
from surefoot.types.errors import HookError, RewardError


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (r"\boxed{5}", "5"),
        (r"\fbox{5}", "5"),
        (r"\boxed {5}", "5"),
        (r"\boxed 5.", "5"),
        (r"\boxed5", "5"),
        (r"\boxed{1} and \boxed{2}", "2"),
        (r"\boxed{1} and \boxed{2", "1"),
        (r"\boxed{1}, put it in \boxed{}", "1"),
        (r"\boxed{\boxed{5}}", r"\boxed{5}"),
        (r"\boxed{ so \boxed{5}", "5"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\left\{1\right.}", r"\left\{1\right."),
        (r"\boxed{\begin{pmatrix}1\\{2}\end{pmatrix}}", r"\begin{pmatrix}1\\{2}\end{pmatrix}"),
        (r"} \boxed{5} {", "5"),
        (r"\boxed{5\}", None),
        (r"\boxedfoo{5}", None),
        ("boxed{5}", None),
        ("5", None),
    ],
)
def test_the_last_complete_box(response: str, expected: str | None) -> None:
    assert answer(response) == expected


@pytest.mark.parametrize(
    ("fallback", "response", "expected"),
    [
        ("final_answer", "The answer is 5.", "5"),
        ("final_answer", "**Answer:** $x = 5$", "$x = 5$"),
        ("final_answer", "so it is done\n#### 1,200", "1,200"),
        ("final_answer", "The answer is 3. Wait. The answer is 4. Done.", "4"),
        ("final_answer", "The answer is 3.5 m. Done.", "3.5 m"),
        ("final_answer", "It is 5.", None),
        ("final_answer", r"The answer is 4, so \boxed{5}", "5"),
        ("last_number", "from 3 to 1,250 kg", "1250"),
        ("last_number", "none", None),
        ("none", "The answer is 5.", None),
    ],
)
def test_fallback(fallback: str, response: str, expected: str | None) -> None:
    assert answer(response, fallback=fallback) == expected


def test_unknown_fallback_names_the_nearest() -> None:
    for call in (lambda: answer("5", fallback="last_nubmer"), lambda: check("5", {}, fallback="last_nubmer")):
        with pytest.raises(HookError, match="did you mean 'last_number'"):
            call()


@pytest.mark.parametrize(
    ("label", "text", "reward"),
    [
        (42, "42", 1),
        (9007199254740995, "9007199254740995", 1),
        (9007199254740995, "9007199254740996", 0),
        ("2.5", "2", 0),
        (3.0, "3", 1),
        (0.1, "0.1", 1),
        (0.1, r"\frac{1}{10}", 1),
        (1e-7, r"10^{-7}", 1),
        (1e22, "10^{22}", 1),
        (0.30000000000000004, "0.3", 0),
        ("1e400", "1", 0),
        (r"so we get \boxed{7}", "7", 1),
        ("3 + 4 = 7\n#### 7", "7", 1),
        (r"$\frac12$", "0.5", 1),
    ],
)
def test_labels(label: Any, text: str, reward: float) -> None:
    check(label, {})
    assert score("", rf"\boxed{{{text}}}", label, {}) == reward


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        (None, "null"),
        (["3"], "type list"),
        ({"a": 1}, "type dict"),
        (True, "type bool"),
        (float("nan"), "is nan"),
        (float("inf"), "is inf"),
        ("", "empty"),
        (" $ $ ", "empty"),
        ("1" * 2000, "2000 characters"),
    ],
)
def test_labels_that_no_answer_matches_are_refused(label: Any, reason: str) -> None:
    for call in (lambda: check(label, {}), lambda: score("", r"\boxed{3}", label, {})):
        with pytest.raises(RewardError, match=reason):
            call()


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False), st.integers(-2, 2))
def test_a_number_equals_itself_and_no_neighbour(label: float, step: int) -> None:
    other = label + step
    assert score("", rf"\boxed{{{json.dumps(other)}}}", label, {}) == (label == other)
