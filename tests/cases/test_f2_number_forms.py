"""f2-number-forms, https://github.com/EleutherAI/lm-evaluation-harness/issues/4038

Removing every comma fuses lists; not removing any marks separators wrong; signs and percent signs get lost. Its kind: a
number's form never changes its value. The percent policy stands in docs/math.md: a label's sign may be left out.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.envs.rewards.math import score

PAIRS = [
    ("48250", "48,250", 1),
    ("48250", "48{,}250", 1),
    ("2,7", "2,7", 1),
    ("2,7", "27", 0),
    ("52,18", "5218", 0),
    ("-8", "8", 0),
    ("-8", "-8", 1),
    ("9", r"9\text{ kg}", 1),
    (r"12.5\%", "0.125", 1),
    (r"12.5\%", "12.5", 1),  # the case leaves it open
    (r"\frac{1}{1500!}", r"\frac{1}{1501!}", 0),
]


@pytest.mark.parametrize(("gold", "answer", "reward"), PAIRS)
def test_case(gold: str, answer: str, reward: float) -> None:
    assert score("", rf"\boxed{{{answer}}}", gold, {}) == reward


SEPARATORS = st.sampled_from([",", "{,}", r"\,", r"\ ", ",\\!"])


@given(st.integers(-(10**15), 10**15), SEPARATORS, st.integers(-1, 1))
def test_separators_keep_the_value(value: int, separator: str, change: int) -> None:
    written = f"{value:,}".replace(",", separator)
    assert score("", rf"\boxed{{{written}}}", value + change, {}) == (change == 0)


@given(st.lists(st.integers(0, 99), min_size=2, max_size=4))
def test_lists_are_not_fused(values: list[int]) -> None:
    fused = "".join(map(str, values))
    assert score("", rf"\boxed{{{fused}}}", ",".join(map(str, values)), {}) == 0
