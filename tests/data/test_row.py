import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.data.row import parse_row
from surefoot.types.errors import DataError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=4,
)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.text(), JSON, max_size=4), st.booleans())
def test_values_and_types_survive(row: dict[str, object], escape: bool) -> None:
    got = parse_row(json.dumps(row, ensure_ascii=escape).encode())
    assert repr(got) == repr(row)  # repr: 1, 1.0 and True differ


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"a": 1', "not JSON: Expecting ',' delimiter at column 8"),
        (b'{"a": 1} {"b": 2}', "not JSON: Extra data at column 10"),
        (b"[1]", r"not an object but \[1\]"),
        (b"null", "not an object but null"),
        (b'"text"', 'not an object but "text"'),
        (b'{"a": "\xff"}', "not UTF-8: .* at byte 8"),
        (b'{"a": NaN}', "not JSON: NaN"),
        (b'{"a": -Infinity}', "not JSON: -Infinity"),
        (b'{"a": 1e400}', "1e400 is out of range"),
        (b'{"a": [-1.5E999]}', "-1.5E999 is out of range"),
        (b'{"a": 2e-400}', "2e-400 is out of range"),
        (b'{"a": 007}', "not JSON: Expecting ',' delimiter at column 8"),
        (b'{"a": 9007199254740995.0}', "9007199254740995.0 would become 9007199254740996.0"),
        (b'{"a": [-9.007199254740995e15]}', "-9.007199254740995e15 would become"),
        (b'{"a": 1, "a": 2}', "the key 'a' stands twice"),
        (b'{"m": {"b": 1, "b": 1}}', "the key 'b' stands twice"),
        (rb'{"a": "\ud83d"}', "half a surrogate pair"),
        (rb'{"\uDE42": "a"}', "half a surrogate pair"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not JSON: Exceeds the limit"),
        (b'{"a": ' + b"[" * 200_000, "not JSON"),
        (b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}", "nested more than 100 deep"),
        (b'{"a":' * 101 + b"1" + b"}" * 101, "nested more than 100 deep"),
        *[(b"[" * deep + b"]" * deep, "nested|not JSON") for deep in range(101, 1100, 7)],  # to beyond the stack
    ],
)
def test_what_would_be_changed_is_refused(line: bytes, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        parse_row(line)


def test_what_is_long_is_not_deep() -> None:
    assert parse_row(b'{"a": ' + b"[" * 99 + b"]" * 99 + b', "b": "["}')["b"] == "["
    assert parse_row(b'{"a": [' + b"[]," * 500 + b'"[["]}')["a"][-1] == "[["


def test_odd_but_right() -> None:
    assert parse_row(rb' {"a": "\ud83d\ude42", "b": 0e-999, "c": -0.0} ' + b"\r\n") == {"a": "🙂", "b": 0.0, "c": 0.0}
    big = parse_row(b'{"a": 9007199254740995, "b": 9007199254740996.0, "c": 1e3, "d": 6.02e23, "e": true, "f": null}')
    right = {"a": 9007199254740995, "b": 9007199254740996.0, "c": 1000.0, "d": 6.02e23, "e": True, "f": None}
    assert repr(big) == repr(right)
    assert parse_row(rb'{"a": "\\ud83d"}') == {"a": r"\ud83d"}
