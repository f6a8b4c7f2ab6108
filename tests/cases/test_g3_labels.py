"""g3-labels, https://github.com/THUDM/slime/pull/2203

Labels that are not strings crash the grader, or int(float(label)) changes them. Its kind: a label of any JSON type is
either compared exactly or refused before training, with its row's name.
"""

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.config.schema import RewardConfig
from surefoot.data import read_prompts
from surefoot.envs import Rubric
from surefoot.types.errors import DataError
from surefoot.types.rollout import Prompt

RUBRIC = Rubric.from_config([RewardConfig(name="exact_match")], timeout=60.0)


def load(tmp_path: Path, labels: list[object]) -> list[Prompt]:
    path = tmp_path / "labels.jsonl"
    path.write_text("\n".join(json.dumps({"prompt": "q", "label": label}) for label in labels), encoding="utf-8")
    return read_prompts(path)


@pytest.mark.parametrize(
    ("label", "answer", "expected"),
    [
        (42, "42", 1),
        (9007199254740995, "9007199254740995", 1),
        (9007199254740995, "9007199254740996", 0),
        ("2.5", "2", 0),
        (3.0, "3", 1),
        ("1e400", "1", 0),
    ],
)
def test_exact_comparison(tmp_path: Path, label: object, answer: str, expected: float) -> None:
    prompts = load(tmp_path, [label])
    RUBRIC.check(prompts)
    reward, _ = asyncio.run(RUBRIC.score(prompts[0], answer))
    assert reward == expected


def test_null_and_lists_are_found_before_training_and_name_their_row(tmp_path: Path) -> None:
    prompts = load(tmp_path, [42, None, ["3"], "x"])
    with pytest.raises(DataError) as caught:
        RUBRIC.check(prompts)
    first, second = str(caught.value).splitlines()
    assert first.startswith("prompt labels:2: exact_match: the label is null")
    assert second.startswith("prompt labels:3: exact_match: the label ['3'] is of type list")


@settings(max_examples=80, deadline=None)
@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False), st.integers(-2, 2))
def test_a_number_equals_itself_and_no_neighbour(
    tmp_path_factory: pytest.TempPathFactory, label: float, step: int
) -> None:
    (prompt,) = load(tmp_path_factory.mktemp("labels"), [label])
    reward, _ = asyncio.run(RUBRIC.score(prompt, json.dumps(label + step)))
    assert reward == (label + step == label)
