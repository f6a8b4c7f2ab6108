"""g1-jsonl-hazards, https://github.com/huggingface/datasets/issues/8241

A byte-order mark, CRLF, U+2028 in a string or a broken line changes what is loaded or names the wrong line. Loading is
strict: nothing is dropped, every bad line is named by its physical number. Its kind: tests/data/test_source.py.
"""

from pathlib import Path

import pytest

from surefoot.data import read_prompts
from surefoot.types.errors import DataError

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


def test_every_bad_line_is_named_by_its_number(tmp_path: Path) -> None:
    path = write(tmp_path, LINES)
    with pytest.raises(DataError) as caught:
        read_prompts(path)
    places = [line.removeprefix(f"{path}:").split(":")[0] for line in str(caught.value).splitlines()]
    assert places == ["4", "5", "6"]


def test_the_good_lines_load(tmp_path: Path) -> None:
    prompts = read_prompts(write(tmp_path, [line if number in {0, 1, 6} else "" for number, line in enumerate(LINES)]))
    assert [prompt.messages[0].content for prompt in prompts] == ["2+2?", "top\u2028bottom", "7+7?"]
    assert [prompt.id for prompt in prompts] == ["hazards:1", "hazards:2", "hazards:7"]
    assert [prompt.payload["label"] for prompt in prompts] == ["4", "1", "14"]
