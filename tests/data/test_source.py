import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.config.schema import DataConfig, EvalSetConfig
from surefoot.data import load_prompts, read_prompts
from surefoot.types.errors import ConfigError, DataError, UsageError
from surefoot.types.rollout import Message


def write(tmp_path: Path, *rows: Any) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")
    return path


def test_a_row_becomes_a_prompt(tmp_path: Path) -> None:
    path = write(tmp_path, {"q": "2+2?", "a": 4, "m": {"k": [1]}, "unused": 1})
    (prompt,) = read_prompts(
        path, input_key="q", label_key="a", metadata_key="m", system="S", template="<{prompt}>", env="sums"
    )
    assert prompt.id == "rows:1"
    assert prompt.env == "sums"
    assert prompt.messages == (Message("system", "S"), Message("user", "<2+2?>"))
    assert prompt.payload == {"label": 4, "metadata": {"k": [1]}}


@pytest.mark.parametrize("label", ["007", 7, 7.0, 9007199254740995, True, None, ["3"], {"a": 1}, "", "1e400"])
def test_labels_stay_what_they_are(tmp_path: Path, label: object) -> None:
    (prompt,) = read_prompts(write(tmp_path, {"prompt": "q", "label": label}))
    assert repr(prompt.payload["label"]) == repr(label)


def test_without_label_key_there_is_no_label(tmp_path: Path) -> None:
    (prompt,) = read_prompts(write(tmp_path, {"prompt": "q"}), label_key="")
    assert prompt.payload == {"label": None, "metadata": {}}


def test_ids(tmp_path: Path) -> None:
    rows = [{"prompt": "q", "label": 1, **extra} for extra in ({}, {"id": "x"}, {"id": 7}, {"id": "x"}, {})]
    prompts = read_prompts(write(tmp_path, rows[0], "", *rows[1:]))
    assert [prompt.id for prompt in prompts] == ["rows:1", "x", "7", "x", "rows:6"]  # line numbers, as an editor's


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"promt": "q", "label": 1}, "no key 'prompt'; did you mean 'promt'"),
        ({"prompt": "q"}, "no key 'label'; it has prompt"),
        ({"prompt": "", "label": 1}, "empty prompt"),
        ({"prompt": "q", "label": 1, "id": 1.5}, "its id is 1.5"),
        ({"prompt": "q", "label": 1, "id": None}, "its id is None"),
        ({"prompt": "q", "label": 1, "id": True}, "its id is True"),
        ({"prompt": "q", "label": 1, "id": ""}, "its id is ''"),
        ("[]", "not an object"),
        ("{", "not JSON"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, row: object, reason: str) -> None:
    path = write(tmp_path, {"prompt": "q", "label": 1}, row)
    with pytest.raises(DataError, match=rf"^{path}:2: {reason}"):
        read_prompts(path)


def test_metadata_must_be_there_and_an_object(tmp_path: Path) -> None:
    rows = [{"prompt": "q", "label": 1, **extra} for extra in ({}, {"m": None}, {"m": [1]}, {"m": {}})]
    with pytest.raises(DataError) as caught:
        read_prompts(write(tmp_path, *rows), metadata_key="m")
    lines = [line.split("rows.jsonl:")[1] for line in str(caught.value).splitlines()]
    assert [line.split(": ")[0] for line in lines] == ["1", "2", "3"]


def test_all_bad_rows_in_one_error_twenty_spelt_out(tmp_path: Path) -> None:
    good = {"prompt": "q", "label": 1}
    path = write(tmp_path, *[good if number % 2 else "{" for number in range(50)])
    with pytest.raises(DataError) as caught:
        read_prompts(path)
    *shown, last = str(caught.value).splitlines()
    assert [line.split(":")[1] for line in shown] == [str(2 * number + 1) for number in range(20)]
    assert last == "and 5 more bad rows, 25 in all"


def test_limit_reads_that_many_rows(tmp_path: Path) -> None:
    rows = [{"prompt": "q", "label": number} for number in range(5)]
    path = write(tmp_path, "", *rows, "{")
    assert [prompt.payload["label"] for prompt in read_prompts(path, limit=3)] == [0, 1, 2]
    assert len(read_prompts(path, limit=5)) == 5
    with pytest.raises(DataError, match=":7: not JSON"):
        read_prompts(path, limit=6)
    with pytest.raises(DataError) as caught:
        read_prompts(write(tmp_path, "{", rows[0], "{"), limit=2)
    assert len(str(caught.value).splitlines()) == 1
    with pytest.raises(ConfigError, match="negative"):
        read_prompts(path, limit=-1)


@pytest.mark.parametrize("content", [b"", b"\n \r\n\n", b"\xef\xbb\xbf"])
def test_no_rows(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"{path}: no rows; {len(content)} bytes"):
        read_prompts(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.jsonl: No such file"):
        read_prompts(tmp_path / "nowhere.jsonl")
    with pytest.raises(DataError, match="Is a directory"):
        read_prompts(tmp_path)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=6),
    st.sampled_from(["\n", "\r\n", "\n\n"]),
    st.booleans(),
    st.booleans(),
)
def test_any_text_survives_any_line_ending(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], ending: str, bom: bool, escape: bool
) -> None:
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    lines = [json.dumps({"prompt": text, "label": text}, ensure_ascii=escape) for text in texts]
    path.write_bytes(b"\xef\xbb\xbf" * bom + ending.join(lines).encode())
    prompts = read_prompts(path)
    assert [prompt.messages[0].content for prompt in prompts] == texts
    assert [prompt.payload["label"] for prompt in prompts] == texts


def test_load_jsonl(tmp_path: Path) -> None:
    path = write(tmp_path, *[{"q": str(number), "label": number} for number in range(3)])
    prompts = load_prompts(DataConfig(path=str(path), input_key="q", size=2, template="{prompt}!"))
    assert [prompt.messages[0].content for prompt in prompts] == ["0!", "1!"]


def test_load_gym() -> None:
    prompts = load_prompts(DataConfig(source="reasoning_gym", task="products", size=2, seed=1))
    assert [prompt.env for prompt in prompts] == ["products", "products"]


@pytest.mark.parametrize(
    ("config", "key"),
    [
        (DataConfig(), "data: path is not set"),
        (DataConfig(source="reasoning_gym", task="products"), "size = 0"),
        (DataConfig(path="x", template="Q"), r"data: template = 'Q' has no \{prompt\}"),
        (EvalSetConfig(name="held_out"), "eval.sets 'held_out': path is not set"),
    ],
)
def test_a_source_that_cannot_be_read_names_its_section(config: DataConfig, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        load_prompts(config)


def test_every_problem_of_data_is_an_error_of_use() -> None:
    assert issubclass(DataError, UsageError)
    assert issubclass(ConfigError, UsageError)
