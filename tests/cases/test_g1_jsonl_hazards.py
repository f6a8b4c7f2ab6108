"""g1-jsonl-hazards, https://github.com/huggingface/datasets/issues/8241

A byte-order mark, CRLF, U+2028 in a string or a broken line changes what is loaded or names the wrong line. Loading is
strict: nothing is dropped, every bad line is named by its physical number; `bad_rows = "skip"` uses the rest and says
what it left out. Its kind: tests/data/test_source.py.
"""

from pathlib import Path

import pytest

from surefoot.config.schema import DataConfig
from surefoot.data import load_data, read_prompts
from surefoot.types.errors import DataError
from surefoot.types.rollout import Prompt

LINES = [
    '\ufeff{"prompt":"2+2?","label":"4"}\r',
    '{"prompt":"top\u2028bottom","label":"1"}',
    "",
    '{"prompt":"3+3?","label":"6"',
    '["not","an","object"]',
    '{"question":"5+5?","label":"10"}',
    '{"prompt":"7+7?","label":"14"}',
]


def write(tmp_path: Path, lines: list[str]) -> Path:
    path = tmp_path / "hazards.jsonl"
    path.write_bytes("\n".join(lines).encode("utf-8"))
    return path


def check_good(prompts: tuple[Prompt, ...] | list[Prompt]) -> None:
    assert [prompt.messages[0].content for prompt in prompts] == ["2+2?", "top\u2028bottom", "7+7?"]
    assert [prompt.id for prompt in prompts] == ["hazards:1", "hazards:2", "hazards:7"]
    assert [prompt.payload["label"] for prompt in prompts] == ["4", "1", "14"]


def test_every_bad_line_is_named_by_its_number(tmp_path: Path) -> None:
    path = write(tmp_path, LINES)
    with pytest.raises(DataError) as caught:
        read_prompts(path)
    places = [line.removeprefix(f"{path}:").split(":")[0] for line in str(caught.value).splitlines()]
    assert places == ["4", "5", "6"]


def test_the_good_lines_load(tmp_path: Path) -> None:
    lines = [line if number in {0, 1, 6} else "" for number, line in enumerate(LINES)]
    check_good(read_prompts(write(tmp_path, lines)))


def test_skipping_uses_the_three_good_lines_and_reports_the_three_bad_ones(tmp_path: Path) -> None:
    path = write(tmp_path, LINES)
    loaded = load_data(DataConfig(path=str(path), bad_rows="skip"))
    check_good(loaded.prompts)
    reasons = {"4": "not JSON", "5": "not an object", "6": "no key 'prompt'"}
    assert len(loaded.skipped) == 3
    for problem, (line, reason) in zip(loaded.skipped, reasons.items(), strict=True):
        assert problem.startswith(f"{path}:{line}: {reason}")


def test_in_a_folder_of_data_files_the_same_holds(tmp_path: Path) -> None:
    """The reader of `datasets` gives up on the file, or names line 1."""
    path = write(tmp_path, LINES)
    loaded = load_data(DataConfig(source="datasets", path=str(tmp_path), bad_rows="skip"))
    check_good(loaded.prompts)
    assert [problem.removeprefix(f"{path}:").split(":")[0] for problem in loaded.skipped] == ["4", "5", "6"]
    write(tmp_path, ["[]", *LINES[1:]])  # a first line that is an array does not make the file one
    loaded = load_data(DataConfig(source="datasets", path=str(tmp_path), bad_rows="skip"))
    assert len(loaded.prompts) == 2 and loaded.skipped[0].startswith(f"{path}:1: not an object but []")
