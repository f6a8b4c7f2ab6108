"""The run files in docs/data.md load the data they speak of."""

import re
import tomllib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from surefoot.config.schema import TrainDataConfig
from surefoot.data import PromptStream, load_data

PAGE = Path(__file__).parents[2] / "docs" / "data.md"
EXAMPLES = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(encoding="utf8"), re.MULTILINE | re.DOTALL)
ROWS = [3, 2, 4, 1000, 3, 5]  # of each example, given the files below


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    lines = [f'{{"prompt": "{number}+2?", "label": {number + 2}}}\n' for number in range(3)]
    (tmp_path / "prompts.jsonl").write_text("".join(lines))
    (tmp_path / "gsm8k").mkdir()
    answers = [f'{{"question": "{number}?", "answer": "#### {number}"}}\n' for number in range(4)]
    (tmp_path / "gsm8k" / "train.jsonl").write_text("".join(answers))
    (tmp_path / "gsm8k" / "test.jsonl").write_text(answers[0])
    table = {"prompt": [[{"role": "user", "content": "q"}]] * 2, "reward_model": [{"ground_truth": "1"}] * 2}
    pq.write_table(pa.table({**table, "extra_info": [{"index": 0}, {"index": 1}]}), tmp_path / "train.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_an_example_loads(folder: Path, number: int) -> None:
    if "datasets" in EXAMPLES[number]:
        pytest.importorskip("datasets")
    config = TrainDataConfig(**tomllib.loads(EXAMPLES[number])["data"])
    loaded = load_data(config)
    assert len(loaded.prompts) == ROWS[number]
    if config.mix:
        stream = PromptStream(loaded.prompts, seed=0, shuffle=True, epochs=config.epochs, sources=loaded.sources)
        assert stream.total == 16  # two epochs of two rows at a share of a quarter


def test_every_example_is_tried() -> None:
    assert len(EXAMPLES) == len(ROWS)
