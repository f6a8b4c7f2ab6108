import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.config.schema import DataConfig, EvalSetConfig, MixConfig, TrainDataConfig
from surefoot.data import load_data, read_prompts
from surefoot.data.mix import Share
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
    assert prompt.payload == {"label": 4, "metadata": {"k": [1]}, "origin": "rows.jsonl:1"}


@pytest.mark.parametrize("label", ["007", 7, 7.0, 9007199254740995, True, None, ["3"], {"a": 1}, "", "1e400"])
def test_labels_stay_what_they_are(tmp_path: Path, label: object) -> None:
    (prompt,) = read_prompts(write(tmp_path, {"prompt": "q", "label": label}))
    assert repr(prompt.payload["label"]) == repr(label)


def test_without_label_key_there_is_no_label(tmp_path: Path) -> None:
    (prompt,) = read_prompts(write(tmp_path, {"prompt": "q"}), label_key="")
    assert prompt.payload == {"label": None, "metadata": {}, "origin": "rows.jsonl:1"}


def test_ids(tmp_path: Path) -> None:
    rows = [{"prompt": "q", "label": 1, **extra} for extra in ({}, {"id": "x"}, {"id": 7}, {"id": None}, {"name": "n"})]
    path = write(tmp_path, rows[0], "", *rows[1:])  # line numbers, as an editor's
    assert [prompt.id for prompt in read_prompts(path)] == ["rows:1", "x", "7", "rows:5", "rows:6"]
    assert [prompt.id for prompt in read_prompts(path, id_key="")] == [f"rows:{line}" for line in (1, 3, 4, 5, 6)]
    assert [prompt.id for prompt in read_prompts(path, id_key="name")][-2:] == ["rows:5", "n"]
    origins = [prompt.payload["origin"] for prompt in read_prompts(path)]
    assert origins == [f"rows.jsonl:{line}" for line in (1, 3, 4, 5, 6)]


@pytest.mark.parametrize(("first", "second"), [("x", "x"), (7, "7"), ("rows:3", None)])
def test_an_id_that_stands_twice(tmp_path: Path, first: object, second: object) -> None:
    rows = [{"prompt": "q", "label": 1, "id": row_id} for row_id in (first, "other", second)]
    path = write(tmp_path, *rows)
    with pytest.raises(DataError, match=rf"^{path}:3: its id '{first}' is that of line 1 too; id_key = \"\"") as caught:
        read_prompts(path)
    assert len(str(caught.value).splitlines()) == 1
    assert len(read_prompts(path, id_key="")) == 3


def test_an_id_is_taken_by_good_rows_only(tmp_path: Path) -> None:
    rows = [{"prompt": prompt, "label": 1, "id": "x"} for prompt in ("", "q")]
    loaded = load_data(DataConfig(path=str(write(tmp_path, *rows)), bad_rows="skip"))
    assert [prompt.payload["origin"] for prompt in loaded.prompts] == ["rows.jsonl:2"]


def test_keys_reach_into_objects_but_a_key_as_written_comes_first(tmp_path: Path) -> None:
    inside = {"question": "q", "answer": {"final": "007"}, "extra": {"k": 1}, "uid": 5}
    keys = {"input_key": "row.question", "label_key": "row.answer.final", "metadata_key": "row.extra"}
    rows = [{"row": inside}, {"row": inside | {"uid": 6}, "row.question": "as written"}]
    first, second = read_prompts(write(tmp_path, *rows), **keys, id_key="row.uid")
    assert (first.messages[0].content, first.id, second.id) == ("q", "5", "6")
    assert first.payload == {"label": "007", "metadata": {"k": 1}, "origin": "rows.jsonl:1"}
    assert second.messages[0].content == "as written"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"row": {"answr": 1}}, "no key 'answer'; did you mean 'answr'\\? in 'row'"),
        ({"row": {"x": 1}}, "no key 'answer'; it has x in 'row'"),
        ({"row": None}, "no key 'row.answer': 'row' is null, not an object"),
        ({"row": [1]}, "no key 'row.answer': 'row' is a list, not an object"),
    ],
)
def test_a_path_that_ends_early_says_where(tmp_path: Path, row: dict[str, object], reason: str) -> None:
    path = write(tmp_path, {"prompt": "q", **row})
    with pytest.raises(DataError, match=rf"^{path}:1: {reason}"):
        read_prompts(path, label_key="row.answer")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"promt": "q", "label": 1}, "no key 'prompt'; did you mean 'promt'"),
        ({"prompt": "q"}, "no key 'label'; it has prompt"),
        ({"prompt": "", "label": 1}, "empty prompt"),
        ({"prompt": "q", "label": 1, "id": 1.5}, "its id is 1.5"),
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


@pytest.mark.parametrize("rows", ["", ":3", "3:", "1:4", "::2", "1::3", "-2:", ":-2", "-4:-1:2", "0:", ":99", "-99:2"])
def test_rows_are_a_python_slice_of_the_rows_that_are_not_blank(tmp_path: Path, rows: str) -> None:
    path = write(tmp_path, "", *[{"prompt": "q", "label": number} for number in range(7)], "")
    got = [prompt.payload["label"] for prompt in read_prompts(path, rows=rows)]
    assert got == eval(f"list(range(7))[{rows or ':'}]")


def test_what_is_bad_outside_the_slice_does_not_matter(tmp_path: Path) -> None:
    good = {"prompt": "q", "label": 1, "id": "x"}
    path = write(tmp_path, good, "{", good, "")
    assert len(read_prompts(path, rows=":1")) == 1
    assert len(read_prompts(path, rows="2:")) == 1  # bad rows count: the third row is the third row
    with pytest.raises(DataError, match=rf"^{path}:2: not JSON") as caught:
        read_prompts(path, rows=":2")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("rows", ["3", "a:b", ":5:0", "::-1", "1:2:3:4"])
def test_what_is_no_slice(tmp_path: Path, rows: str) -> None:
    path = write(tmp_path, {"prompt": "q", "label": 1})
    with pytest.raises(ConfigError, match="is not a slice"):
        read_prompts(path, rows=rows)


def test_bad_rows_are_skipped_with_a_report_or_refuse_the_file(tmp_path: Path) -> None:
    good = {"prompt": "q", "label": 1}
    path = write(tmp_path, "{", good, {"prompt": "q"}, good)
    loaded = load_data(DataConfig(path=str(path), bad_rows="skip"))
    assert [prompt.id for prompt in loaded.prompts] == ["rows:2", "rows:4"]
    first, second = loaded.skipped
    assert first.startswith(f"{path}:1: not JSON") and second == f"{path}:3: no key 'label'; it has prompt"
    assert loaded.sources == (Share(2, 0.0),)
    with pytest.raises(DataError) as caught:
        load_data(DataConfig(path=str(path)))
    assert str(caught.value) == f"{first}\n{second}"


@pytest.mark.parametrize("content", [b"", b"\n \r\n\n", b"\xef\xbb\xbf"])
def test_no_rows(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"^{path}: no rows to use: it has 0$"):
        read_prompts(path)


@pytest.mark.parametrize(
    ("rows", "summary"),
    [
        ("3:", 'it has 3, of which rows = "3:" takes 0'),
        (":2", 'it has 3, of which rows = ":2" takes 2, all of them bad:'),
    ],
)
def test_no_rows_left(tmp_path: Path, rows: str, summary: str) -> None:
    path = write(tmp_path, "{", "[]", {"prompt": "q", "label": 1})
    with pytest.raises(DataError) as caught:
        load_data(DataConfig(path=str(path), rows=rows, bad_rows="skip"))
    first, *reasons = str(caught.value).splitlines()
    assert first == f"{path}: no rows to use: {summary}"
    assert [reason.split(": ")[0] for reason in reasons] == ([f"{path}:1", f"{path}:2"] if rows == ":2" else [])


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [("a.jsonl", b"PAR1\x00", 'a parquet file: set source = "parquet"'), ("a.jsonl.gz", b"\x1f\x8b\x08", "unpack it")],
)
def test_a_file_of_another_kind(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=reason):
        read_prompts(tmp_path / name)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for name in ("nowhere.jsonl", "nowhere.parquet"):
        with pytest.raises(DataError, match=rf"{name}: No such file"):
            read_prompts(tmp_path / name)
    for source in ("jsonl", "parquet"):
        with pytest.raises(DataError, match="Is a directory"):
            read_prompts(tmp_path, source=source)  # type: ignore[arg-type]


LINES = st.one_of(
    st.binary(max_size=12),
    st.sampled_from(
        [b'{"prompt": "q", "label": 1}', b'{"prompt": "\\ud800", "label": 1}', b"\x1f\x8b", b"PAR1", b"\r"]
    ),
    st.builds(
        lambda row: json.dumps(row).encode(),
        st.dictionaries(st.sampled_from(["prompt", "label", "id", "x"]), st.text(max_size=2) | st.integers(0, 2)),
    ),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(LINES, max_size=8))
def test_no_bytes_crash_the_reader_or_lose_a_row(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    content = b"\n".join(lines)
    path.write_bytes(content)
    rows = sum(1 for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip())
    try:
        loaded = load_data(DataConfig(path=str(path), bad_rows="skip"))
    except DataError as error:
        if not content.startswith((b"PAR1", b"\x1f\x8b")):
            assert f"it has {rows}" in str(error)
            assert len(str(error).splitlines()) == 1 + rows  # every one of them is named
    else:
        assert len(loaded.prompts) + len(loaded.skipped) == rows
        places = [prompt.payload["origin"] for prompt in loaded.prompts]
        assert len({*places, *(problem.split(": ")[0].split("/")[-1] for problem in loaded.skipped)}) == rows


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
    prompts = load_data(DataConfig(path=str(path), input_key="q", rows=":2", template="{prompt}!")).prompts
    assert [prompt.messages[0].content for prompt in prompts] == ["0!", "1!"]


def test_load_gym() -> None:
    prompts = load_data(DataConfig(source="reasoning_gym", task="products", size=2, seed=1)).prompts
    assert [prompt.env for prompt in prompts] == ["products", "products"]


def test_a_mix_is_its_sources_one_behind_the_other(tmp_path: Path) -> None:
    path = write(tmp_path, {"prompt": "q", "label": 1, "id": "x"}, "{", {"prompt": "r", "label": 2})
    config = TrainDataConfig(
        mix=[
            MixConfig(path=str(path), rows=":1", weight=3),
            MixConfig(source="reasoning_gym", task="products", size=2, weight=1),
            MixConfig(
                path=str(path), bad_rows="skip", template="{prompt}!", weight=0.5
            ),  # ids of two sources may be equal
        ]
    )
    loaded = load_data(config)
    assert [prompt.id for prompt in loaded.prompts] == ["x", "products-0:0", "products-0:1", "x", "rows:3"]
    assert [prompt.messages[-1].content for prompt in loaded.prompts[3:]] == ["q!", "r!"]
    assert loaded.sources == (Share(1, 3.0), Share(2, 1.0), Share(2, 0.5))
    assert [problem.split(": ")[0] for problem in loaded.skipped] == [f"{path}:2"]


def test_every_source_of_a_mix_that_fails_is_named(tmp_path: Path) -> None:
    sources = [
        MixConfig(path="nowhere.jsonl"),
        MixConfig(path=str(write(tmp_path, {"prompt": "q", "label": 1}))),
        MixConfig(),
    ]
    with pytest.raises(DataError) as caught:
        load_data(TrainDataConfig(mix=sources))
    first, second = str(caught.value).splitlines()
    assert first == "nowhere.jsonl: No such file or directory" and second.startswith("data.mix.2: path is not set")


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
        load_data(config)


def test_every_problem_of_data_is_an_error_of_use() -> None:
    assert issubclass(DataError, UsageError)
    assert issubclass(ConfigError, UsageError)
