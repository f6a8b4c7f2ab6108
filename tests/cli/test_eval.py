import json
from pathlib import Path

import pytest

from support import save_run
from surefoot.cli.main import run_command


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_run(tmp_path_factory.mktemp("run"))


def sets(config: Path) -> str:
    return f'eval.sets=[{{name="held", path="{config.parent / "prompts.jsonl"}", label_key="", samples=4}}]'


def test_a_table_and_json(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["eval", str(config), sets(config), "--save", str(tmp_path / "answers")]) == 0
    table = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in table] == [
        ["set", "prompts", "measure"],
        *(["held", "12", measure] for measure in ("accuracy", "pass@2", "pass@4", "reward")),
    ]
    assert (tmp_path / "answers" / "eval-held-step-000000.parquet").is_file()
    assert run_command(["eval", str(config), sets(config), "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert record["set"] == "held" and record["prompts"] == 12 and 0 <= record["pass@4_low"] <= record["pass@4"]


def test_misuse_is_told_in_a_line(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["eval", str(config)]) == 2
    assert "eval.sets" in capsys.readouterr().err
    assert run_command(["eval", str(config), sets(config), "--checkpoint", str(tmp_path)]) in (1, 2)
    (line,) = capsys.readouterr().err.splitlines()
    assert str(tmp_path) in line
