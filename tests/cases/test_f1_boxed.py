r"""f1-boxed, https://github.com/huggingface/Math-Verify/issues/57

Several boxed answers are merged into a set, an earlier box wins, or nested braces cut the answer short. Its kind: what
is graded is the last complete box, whole.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.envs.rewards.math import answer, score

TABLE = [
    (r"I first got \boxed{17}, but rechecking gives \boxed{42}.", "42", "42", 1),
    (r"so \boxed{\dfrac{\frac{3}{2}}{2}} holds", r"\frac{3}{4}", r"\dfrac{\frac{3}{2}}{2}", 1),
    (r"the result is \boxed{8", "8", None, 0),
    (r"\boxed 8", "8", "8", 1),
    ("", "8", None, 0),
]


@pytest.mark.parametrize(("response", "gold", "extracted", "reward"), TABLE)
def test_case(response: str, gold: str, extracted: str | None, reward: float) -> None:
    assert answer(response) == extracted
    assert score("", response, gold, {}) == reward


def test_the_earlier_box_is_not_the_answer() -> None:
    assert score("", TABLE[0][0], "17", {}) == 0


INSIDE = st.recursive(
    st.text("0123456789x+", min_size=1, max_size=4), lambda inner: st.tuples(inner, inner).map(r"\frac{%s}{%s}".__mod__)
)


@given(st.lists(INSIDE, min_size=1, max_size=5), st.sampled_from(["", r" then \boxed{8", " and } { so"]))
def test_the_last_complete_box_whole(boxes: list[str], tail: str) -> None:
    response = " then ".join(rf"\boxed{{{box}}}" for box in boxes) + tail
    assert answer(response) == boxes[-1]
