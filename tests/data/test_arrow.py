"""What each Arrow type becomes. Right values are those of the JSON text a person would write for the same row."""

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.data.arrow import arrow_rows
from surefoot.types.errors import DataError

HERE = Path("rows.parquet")
PAIR = pa.struct([("a", pa.int64()), ("b", pa.string())])
INSIDE = {"a": 2, "b": "y"}


def read(values: list[Any], kind: pa.DataType) -> list[Any]:
    batch = pa.record_batch({"x": pa.array(values, type=kind)})
    return [row.read()["x"] for row in arrow_rows(HERE, [batch], ["x"])]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.int64(), 9007199254740995, 9007199254740995),
        (pa.int64(), -(2**63), -(2**63)),
        (pa.uint64(), 2**64 - 1, 2**64 - 1),
        (pa.int8(), -7, -7),
        (pa.bool_(), True, True),
        (pa.null(), None, None),
        (pa.string(), "007", "007"),
        (pa.large_string(), "🙂", "🙂"),
        (pa.string_view(), "1e400", "1e400"),
        (pa.float64(), 0.1, 0.1),
        (pa.float64(), 3.0, 3.0),
        (pa.float64(), 6.02e23, 6.02e23),
        (pa.float64(), -9007199254740991.0, -9007199254740991.0),
        (pa.float32(), 0.5, 0.5),
        (pa.float16(), 2047.0, 2047.0),
        (pa.decimal128(20, 0), Decimal(9007199254740995), 9007199254740995),
        (pa.decimal128(10, 2), Decimal("12.50"), 12.5),
        (pa.decimal256(40, 1), Decimal("0.1"), 0.1),
        (pa.dictionary(pa.int8(), pa.string()), "007", "007"),
        (pa.list_(pa.int32()), [1, None], [1, None]),
        (pa.large_list(pa.string()), ["a"], ["a"]),
        (pa.list_(pa.float64(), 2), [1.5, 2.5], [1.5, 2.5]),
        (PAIR, {"a": 1, "b": None}, {"a": 1, "b": None}),
        (pa.list_(PAIR), [{"a": 1, "b": "x"}, None], [{"a": 1, "b": "x"}, None]),
        (pa.map_(pa.string(), pa.int64()), [("k", 1), ("l", None)], {"k": 1, "l": None}),
        (pa.struct([("m", pa.map_(pa.string(), PAIR))]), {"m": [("k", {"a": 2, "b": "y"})]}, {"m": {"k": INSIDE}}),
    ],
)
def test_a_value_is_what_json_would_hold(kind: pa.DataType, value: Any, expected: Any) -> None:
    got = read([value, None], kind)
    assert repr(got) == repr([expected, None])  # repr: 1, 1.0 and True differ
    json.dumps(got, allow_nan=False)


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (pa.float64(), 9007199254740996.0, "9007199254740996.0 may be an integer that lost digits"),
        (pa.float64(), -(2.0**53), "may be an integer"),  # what 2**53 + 1 becomes
        (pa.float32(), 16777216.0, "may be an integer"),
        (pa.float16(), 2048.0, "may be an integer"),
        (pa.list_(pa.float64()), [1.0, 9007199254740996.0], "may be an integer"),
        (pa.float64(), float("nan"), r"nan is no JSON number \(a missing value\?\)"),
        (pa.float32(), float("-inf"), "-inf is no JSON number$"),
        (pa.decimal128(20, 1), Decimal("9007199254740995.0"), "the decimal 9007199254740995.0 has more digits"),
        (pa.decimal128(30, 20), Decimal("0.10000000000000000001"), "more digits than float64"),
        (pa.binary(), b"4", "no value of type binary"),
        (pa.timestamp("ns"), 1, "no value of type timestamp"),
        (pa.timestamp("us", "UTC"), datetime.datetime(2020, 1, 1), "no value of type timestamp"),
        (pa.date32(), datetime.date(2020, 1, 1), "no value of type date32"),
        (pa.duration("s"), 1, "no value of type duration"),
        (pa.struct([("t", pa.date32())]), {"t": datetime.date(2020, 1, 1)}, "no value of type date32"),
        (pa.map_(pa.int64(), pa.int64()), [(1, 2)], "a map with the key 1"),
        (pa.map_(pa.string(), pa.int64()), [("k", 1), ("k", 2)], "the key 'k' stands twice"),
    ],
)
def test_what_json_would_not_hold_is_refused_with_its_column(kind: pa.DataType, value: Any, reason: str) -> None:
    batch = pa.record_batch({"x": pa.array([None, value], type=kind)})
    first, second = arrow_rows(HERE, [batch], ["x"])
    assert first.read() == {"x": None}
    assert (second.place, second.origin, second.name) == ("rows.parquet: row 2", "rows.parquet: row 2", "rows:2")
    with pytest.raises(DataError, match=rf"^column 'x': .*{reason}"):
        second.read()


def test_text_that_is_not_utf8_is_refused_in_its_row_alone() -> None:
    broken = pa.Array.from_buffers(pa.string(), 2, pa.array([b"ok", b"\xff"], pa.binary()).buffers())
    first, second = arrow_rows(HERE, [pa.record_batch({"x": broken})], ["x"])
    assert first.read() == {"x": "ok"}
    with pytest.raises(DataError, match=r"column 'x': .*utf-8"):
        second.read()


def test_json_text_is_read_by_the_rules_of_jsonl() -> None:
    assert read(['{"a": [1, null]}', "9007199254740995"], pa.json_()) == [{"a": [1, None]}, 9007199254740995]
    with pytest.raises(DataError, match="column 'x': not JSON: NaN"):
        read(["NaN"], pa.json_())


def test_rows_are_numbered_over_batches_and_other_columns_do_not_matter() -> None:
    batches = [pa.record_batch({"x": [1, 2], "image": [b"", b""]}), pa.record_batch({"x": [3], "image": [b""]})]
    rows = list(arrow_rows(HERE, batches, ["x"]))
    assert [(row.number, row.read()) for row in rows] == [(1, {"x": 1}), (2, {"x": 2}), (3, {"x": 3})]


VALUES = st.recursive(
    st.integers(-(2**63), 2**63 - 1) | st.text() | st.booleans() | st.none(),
    lambda inner: st.fixed_dictionaries({"k": inner, "l": inner}),
    max_leaves=4,
)


@settings(max_examples=60, deadline=None)
@given(VALUES, st.integers(1, 3))
def test_any_value_comes_back(value: Any, times: int) -> None:
    array = pa.array([value] * times)
    assert repr(read(array.to_pylist(), array.type)) == repr([value] * times)
