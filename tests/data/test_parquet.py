from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from surefoot.config.schema import DataConfig
from surefoot.data import load_data, read_prompts
from surefoot.types.errors import DataError
from surefoot.types.rollout import Message


def write(folder: Path, columns: dict[str, Any], **options: Any) -> Path:
    path = folder / "rows.parquet"
    pq.write_table(pa.table(columns), path, **options)
    return path


def test_rows_as_verl_writes_them(tmp_path: Path) -> None:
    asked = [[{"role": "system", "content": "S"}, {"role": "user", "content": text}] for text in ("a", "b")]
    path = write(
        tmp_path,
        {
            "data_source": ["gsm8k", "gsm8k"],
            "prompt": asked,
            "reward_model": [{"style": "rule", "ground_truth": label} for label in ("007", "72")],
            "extra_info": [{"index": 0, "split": "train"}, {"index": 1, "split": None}],
        },
    )
    first, second = read_prompts(path, label_key="reward_model.ground_truth", metadata_key="extra_info")
    assert first.messages == (Message("system", "S"), Message("user", "a"))
    assert first.payload == {
        "label": "007",
        "metadata": {"index": 0, "split": "train"},
        "origin": "rows.parquet: row 1",
    }
    assert second.payload["metadata"] == {"index": 1, "split": None}
    assert [first.id, second.id] == ["rows:1", "rows:2"]


def test_a_column_named_like_a_path_comes_first(tmp_path: Path) -> None:
    path = write(tmp_path, {"prompt": ["q"], "a.b": ["as written"], "a": [{"b": "inside"}]})
    assert [p.payload["label"] for p in read_prompts(path, label_key="a.b")] == ["as written"]


def test_bad_rows_are_named_by_row_and_column_across_row_groups(tmp_path: Path) -> None:
    labels = [1.0, float("nan"), 2.0, 9007199254740996.0]
    path = write(tmp_path, {"prompt": ["q", "q", "", "q"], "label": labels}, row_group_size=1)
    with pytest.raises(DataError) as caught:
        read_prompts(path)
    lines = [line.removeprefix(f"{path}: ") for line in str(caught.value).splitlines()]
    assert [line[:24] for line in lines] == [
        "row 2: column 'label': n",
        "row 3: empty prompt",
        "row 4: column 'label': 9",
    ]
    loaded = load_data(DataConfig(source="parquet", path=str(path), bad_rows="skip"))
    assert [prompt.id for prompt in loaded.prompts] == ["rows:1"] and len(loaded.skipped) == 3
    assert [prompt.id for prompt in read_prompts(path, rows=":1")] == ["rows:1"]


def test_a_null_id_is_no_id_and_ids_are_told_apart(tmp_path: Path) -> None:
    path = write(tmp_path, {"prompt": ["q"] * 4, "label": [1] * 4, "id": [7, None, 8, 7]})
    with pytest.raises(DataError, match=rf"^{path}: row 4: its id '7' is that of row 1 too"):
        read_prompts(path)
    assert [prompt.id for prompt in read_prompts(path, rows=":3")] == ["7", "rows:2", "8"]


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"input_key": "promt"}, "no column 'promt'; did you mean 'prompt'"),
        ({"label_key": "reward.truth"}, "no column 'reward.truth'; it has prompt, label"),
        ({"metadata_key": "m"}, "no column 'm'; it has"),
    ],
)
def test_a_column_that_is_missing_is_said_once(tmp_path: Path, keys: dict[str, str], reason: str) -> None:
    path = write(tmp_path, {"prompt": ["q"] * 9, "label": [1] * 9})
    with pytest.raises(DataError, match=rf"^{path}: {reason}") as caught:
        read_prompts(path, **keys)  # type: ignore[arg-type]
    assert len(str(caught.value).splitlines()) == 1


def test_a_column_that_stands_twice(tmp_path: Path) -> None:
    table = pa.table([pa.array(["q"]), pa.array([1]), pa.array([2])], names=["prompt", "label", "label"])
    pq.write_table(table, tmp_path / "rows.parquet")
    with pytest.raises(DataError, match="the column 'label' stands twice"):
        read_prompts(tmp_path / "rows.parquet")


def test_damaged_files(tmp_path: Path) -> None:
    whole = write(tmp_path, {"prompt": ["q" * 50] * 100, "label": list(range(100))}).read_bytes()
    path = tmp_path / "broken.parquet"
    for content in (b"", b"not parquet at all", whole[:-5], whole[:4] + b"\xff" * 200 + whole[204:]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"^{path}: ") as caught:
            read_prompts(path)
        assert len(str(caught.value).splitlines()) == 1


def test_no_rows(tmp_path: Path) -> None:
    path = write(tmp_path, {"prompt": pa.array([], pa.string()), "label": pa.array([], pa.int64())})
    with pytest.raises(DataError, match=rf"^{path}: no rows to use: it has 0$"):
        read_prompts(path)
