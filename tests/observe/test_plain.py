"""Plain data comes back as it went."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.observe.plain import dump_plain, load_plain

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5))
NAMES = st.sampled_from(["a", "$tuple", "$pairs", ""])


def inside(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, max_size=3)
    return st.one_of(
        lists,
        lists.map(tuple),
        st.dictionaries(NAMES, inner, max_size=3),
        st.dictionaries(st.integers(), inner, max_size=2),
    )


def kinds(value: Any) -> Any:
    """The value with the type of each part, as 1 == 1.0 == True."""
    if isinstance(value, list | tuple):
        return type(value), [kinds(item) for item in value]
    if isinstance(value, dict):
        return dict, [(kinds(key), kinds(item)) for key, item in value.items()]
    return type(value), value


@settings(deadline=None, max_examples=100)
@given(st.recursive(SCALARS, inside, max_leaves=10))
def test_round_trip(value: Any) -> None:
    assert kinds(load_plain(dump_plain(value))) == kinds(value)


def test_nan() -> None:
    assert math.isnan(load_plain(dump_plain(math.nan)))


@pytest.mark.parametrize("value", [{1, 2}, object(), b"x", 1j, [{"a": (b"x",)}]])
def test_other_types_are_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="not plain data"):
        dump_plain(value)
