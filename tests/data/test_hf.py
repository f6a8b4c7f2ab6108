"""Folders as `datasets` makes them. The library itself writes them here; nothing is downloaded."""

import builtins
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from surefoot.config.schema import DataConfig
from surefoot.data import load_data, read_prompts
from surefoot.types.errors import DataError, UsageError
from surefoot.types.rollout import Prompt

datasets = pytest.importorskip("datasets")

ROWS = [
    {"prompt": "a", "label": "007", "id": "x", "meta": {"k": [1, 2]}},
    {"prompt": "b 🙂", "label": "1e400", "id": "y", "meta": {"k": []}},
    {"prompt": "c\u2028d", "label": "", "id": "z", "meta": {"k": [9007199254740995]}},
]


@pytest.fixture(autouse=True)
def no_bars() -> None:
    datasets.disable_progress_bars()


def facts(prompts: list[Prompt]) -> list[tuple[Any, ...]]:
    return [(p.id, p.messages, repr(p.payload["label"]), p.payload["metadata"]) for p in prompts]


def saved(folder: Path, rows: list[dict[str, Any]]) -> Path:
    datasets.Dataset.from_list(rows).save_to_disk(str(folder))
    return folder


def jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("id_key", ["id", ""])
def test_every_source_gives_the_same_prompts(tmp_path: Path, id_key: str) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "rows.parquet")
    array = tmp_path / "array"
    array.mkdir()
    (array / "rows.json").write_text(json.dumps(ROWS))
    paths = [
        jsonl(tmp_path / "rows.jsonl", ROWS),
        tmp_path / "rows.parquet",
        saved(tmp_path / "rows", ROWS),
        jsonl(tmp_path / "snapshot" / "rows.jsonl", ROWS).parent,
        array,
    ]
    of_each = [facts(read_prompts(path, metadata_key="meta", id_key=id_key)) for path in paths]
    names = ["x", "y", "z"] if id_key else ["rows:1", "rows:2", "rows:3"]
    assert [name for name, *_ in of_each[0]] == names
    assert all(each == of_each[0] for each in of_each)


def test_integers_stay_exact_through_save_to_disk(tmp_path: Path) -> None:
    path = saved(tmp_path / "ints", [{"prompt": "q", "label": 9007199254740995}, {"prompt": "r", "label": None}])
    assert [p.payload["label"] for p in read_prompts(path)] == [9007199254740995, None]
    assert [p.payload["origin"] for p in read_prompts(path)] == ["ints: row 1", "ints: row 2"]


def test_splits(tmp_path: Path) -> None:
    folder = tmp_path / "two"
    parts = {name: datasets.Dataset.from_list(rows) for name, rows in (("train", ROWS), ("test", ROWS[1:]))}
    datasets.DatasetDict(parts).save_to_disk(str(folder))
    assert [p.id for p in read_prompts(folder, split="test", rows="1:")] == ["z"]
    assert [p.id for p in read_prompts(folder, split="test", id_key="")] == ["test:1", "test:2"]
    for split, reason in (("", "split is not set"), ("tset", "no split 'tset'")):
        with pytest.raises(DataError, match=rf"^{folder}: {reason}; its splits are train, test$"):
            read_prompts(folder, split=split)
    one = saved(tmp_path / "one", ROWS)
    with pytest.raises(DataError, match="no split 'train'; its one split has no name"):
        read_prompts(one, split="train")


def test_a_selected_and_reordered_data_set(tmp_path: Path) -> None:
    data = datasets.Dataset.from_list(ROWS).select([2, 0]).with_format("numpy", columns=["label"])
    data.save_to_disk(str(tmp_path / "some"))
    assert [p.id for p in read_prompts(tmp_path / "some")] == ["z", "x"]


def test_a_snapshots_splits_and_lines(tmp_path: Path) -> None:
    folder = tmp_path / "snapshot"
    jsonl(folder / "train-00000-of-00002.jsonl", ROWS[:1])
    jsonl(folder / "train-00001-of-00002.jsonl", ROWS[1:])
    jsonl(folder / "test.jsonl", [ROWS[0], {"prompt": "q"}])
    assert [p.id for p in read_prompts(folder, split="train")] == ["x", "y", "z"]
    names = [p.id for p in read_prompts(folder, split="train", id_key="")]
    assert names == ["train-00000-of-00002:1", "train-00001-of-00002:1", "train-00001-of-00002:2"]
    with pytest.raises(DataError, match=rf"^{folder}/test.jsonl:2: no key 'label'"):
        read_prompts(folder, split="test")
    with pytest.raises(DataError, match="no split 'dev'; its splits are train, test"):
        read_prompts(folder, split="dev")
    before = sorted(tmp_path.rglob("*"))
    load_data(DataConfig(source="datasets", path=str(folder), split="test", bad_rows="skip"))
    assert sorted(tmp_path.rglob("*")) == before  # nothing is written beside the data


def test_a_readme_may_name_the_splits_and_csv_is_text(tmp_path: Path) -> None:
    folder = tmp_path / "snapshot"
    folder.mkdir()
    (folder / "easy.csv").write_text("prompt,label\nq,007\n")
    (folder / "README.md").write_text(
        "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: easy\n    path: easy.csv\n---\n"
    )
    (prompt,) = read_prompts(folder, split="easy")
    assert (prompt.id, prompt.payload["label"], prompt.payload["origin"]) == ("easy:2", "007", "easy.csv:2")


def test_one_of_several_configurations(tmp_path: Path) -> None:
    folder = tmp_path / "snapshot"
    folder.mkdir()
    head = "---\nconfigs:\n"
    for name, rows in (("main", ROWS[:1]), ("socratic", ROWS[1:])):
        jsonl(folder / name / "train.jsonl", rows)
        head += f"- config_name: {name}\n  data_files:\n  - split: train\n    path: {name}/*\n"
    (folder / "README.md").write_text(head + "---\n")
    assert [p.id for p in read_prompts(folder, split="socratic/train")] == ["y", "z"]
    assert [p.id for p in read_prompts(folder, split="main/")] == ["x"]
    for split, reason in (
        ("train", r"available configs: \['main', 'socratic'\] \(split = \"CONFIGURATION/SPLIT\" picks one"),
        ("mian/train", "'mian' not found"),
        ("main/test", "no split 'test'; its splits are train"),
    ):
        with pytest.raises(DataError, match=rf"^{folder}: .*{reason}") as caught:
            read_prompts(folder, split=split)
        assert len(str(caught.value).splitlines()) == 1


def test_parquet_in_a_snapshot(tmp_path: Path) -> None:
    folder = tmp_path / "snapshot" / "data"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"prompt": ["q"], "label": [9007199254740995]}), folder / "train-00000-of-00001.parquet")
    (prompt,) = read_prompts(folder.parent)
    assert (prompt.id, prompt.payload["label"]) == ("train-00000-of-00001:1", 9007199254740995)


def test_what_is_no_data_set(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "train.txt").write_text("q\n")
    broken = saved(tmp_path / "broken", ROWS)
    next(broken.glob("*.arrow")).write_bytes(b"no arrow")
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "a.json").write_text('\ufeff [{"prompt": "q", ]', encoding="utf-8")
    reasons = {
        "nowhere": "no such folder",
        "empty": "`datasets` finds no data set: The directory",
        "text": "its files need the loader 'text'",
        "broken": "`datasets` cannot load it",
        "bad": "a.json: not JSON: Expecting property name",
    }
    for name, reason in reasons.items():
        with pytest.raises(DataError, match=rf"^{tmp_path / name}.*{reason}") as caught:
            read_prompts(tmp_path / name, source="datasets")
        assert len(str(caught.value).splitlines()) == 1
    with pytest.raises(DataError, match="a file, not a folder"):
        read_prompts(jsonl(tmp_path / "rows.jsonl", ROWS), source="datasets")


def test_a_missing_column_is_said_once(tmp_path: Path) -> None:
    path = saved(tmp_path / "rows", ROWS)
    with pytest.raises(DataError, match=rf"^{path}: no column 'prmpt'; did you mean 'prompt'\?$"):
        read_prompts(path, input_key="prmpt")


def test_without_the_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path / "rows", ROWS)
    real = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "datasets":
            raise ImportError("No module named 'datasets'")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UsageError, match=r'source = "datasets" needs `pip install "surefoot\[datasets\]"`'):
        read_prompts(path)


def test_nothing_is_cached_in_the_home_folder(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    folder = jsonl(tmp_path / "snapshot" / "rows.jsonl", ROWS).parent
    script = f"from surefoot.data import read_prompts; print(len(read_prompts({str(folder)!r})))"
    environment = {**os.environ, "HOME": str(home), "HF_HOME": str(home / "hf")}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout == "3\n", done.stderr
    assert not [path for path in home.rglob("*") if path.is_file()]
