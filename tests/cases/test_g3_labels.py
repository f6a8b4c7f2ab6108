"""g3-labels, https://github.com/THUDM/slime/pull/2203

Labels that are not strings crash the grader, or int(float(label)) changes them. Its kind: a label of any JSON type is
either compared exactly or refused before training, with its row's name.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.config.schema import RewardConfig
from surefoot.data import read_prompts
from surefoot.envs import Rubric, rewards
from surefoot.types.errors import DataError
from surefoot.types.rollout import Prompt

RUBRIC = Rubric.from_config([RewardConfig(name="exact_match")], timeout=60.0)
SCORE = rewards.get("exact_match")


PAIRS = [
    (42, "42", 1),
    (9007199254740995, "9007199254740995", 1),
    (9007199254740995, "9007199254740996", 0),
    ("2.5", "2", 0),
    (3.0, "3", 1),
    ("1e400", "1", 0),
]


def load(tmp_path: Path, labels: list[object]) -> list[Prompt]:
    path = tmp_path / "labels.jsonl"
    path.write_text("\n".join(json.dumps({"prompt": "q", "label": label}) for label in labels), encoding="utf-8")
    return read_prompts(path)


def reward(prompt: Prompt, answer: str) -> float:
    return SCORE("q", answer, prompt.payload["label"], prompt.payload["metadata"])


def load_parquet(tmp_path: Path, labels: Any) -> list[Prompt]:
    path = tmp_path / "labels.parquet"
    pq.write_table(pa.table({"prompt": ["q"] * len(labels), "label": labels}), path)
    return read_prompts(path)


@pytest.mark.parametrize("loader", [load, load_parquet])
@pytest.mark.parametrize(("label", "answer", "expected"), PAIRS)
def test_exact_comparison(
    tmp_path: Path, loader: Callable[[Path, list[object]], list[Prompt]], label: object, answer: str, expected: float
) -> None:
    prompts = loader(tmp_path, [label])
    RUBRIC.check(prompts)
    assert reward(prompts[0], answer) == expected


def test_a_column_of_integers_with_a_gap_stays_exact(tmp_path: Path) -> None:
    """Where such a column passes through pandas it becomes float64 and loses its last digit."""
    prompts = load_parquet(tmp_path, [9007199254740995, None])
    assert [prompt.payload["label"] for prompt in prompts] == [9007199254740995, None]


def test_a_column_that_pandas_made_float64_is_refused(tmp_path: Path) -> None:
    """9007199254740995 and a gap become 9007199254740996.0 and NaN: neither is a label to train on."""
    column = pa.array([9007199254740995.0, float("nan"), 3.0])
    with pytest.raises(DataError) as caught:
        load_parquet(tmp_path, column)
    first, second = str(caught.value).splitlines()
    assert "row 1: column 'label': 9007199254740996.0 may be an integer that lost digits" in first
    assert "row 2: column 'label': nan is no JSON number" in second


def test_a_number_that_json_would_change_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text('{"prompt": "q", "label": 9007199254740995.0}\n{"prompt": "q", "label": 1e400}\n')
    with pytest.raises(DataError) as caught:
        read_prompts(path)
    first, second = str(caught.value).splitlines()
    assert f"{path}:1: the number 9007199254740995.0 would become 9007199254740996.0" in first
    assert f"{path}:2: the number 1e400 is out of range" in second


def test_null_and_lists_are_found_before_training_and_name_their_row(tmp_path: Path) -> None:
    prompts = load(tmp_path, [42, None, ["3"], "x"])
    with pytest.raises(DataError) as caught:
        RUBRIC.check(prompts)
    first, second = str(caught.value).splitlines()
    assert "labels:2" in first and "exact_match: the label is null" in first
    assert "labels:3" in second and "exact_match: the label ['3'] is of type list" in second


@settings(max_examples=80, deadline=None)
@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False), st.integers(-2, 2))
def test_a_number_equals_itself_and_no_neighbour(
    tmp_path_factory: pytest.TempPathFactory, label: float, step: int
) -> None:
    (prompt,) = load(tmp_path_factory.mktemp("labels"), [label])
    assert reward(prompt, json.dumps(label + step)) == (label + step == label)
