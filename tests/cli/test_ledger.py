"""`surefoot ledger`: a table, JSON that is strict, SQL that only reads, digests."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from surefoot.cli.main import run_command
from surefoot.observe.ledger import Ledger
from surefoot.observe.rows import PromptFate, StepRow
from surefoot.observe.rundir import RunDir
from surefoot.train.manifest import describe, write_manifest
from surefoot.types.rollout import Draw, Message, Prompt


def step(number: int, **changes: Any) -> StepRow:
    values: dict[str, Any] = dict.fromkeys(StepRow.__dataclass_fields__, 0)
    texts = {
        "verdict": "applied",
        "reason": "ok",
        "old_source": "sampler",
        "bundle": "",
        "detail": "",
        "spans": {"train": 0.5},
    }
    return StepRow(**values | texts | {"step": number} | changes)


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    run = RunDir(tmp_path / "run")
    run.create()
    prompt = Prompt("p", "", (Message("user", "x"),), {})
    with Ledger.open(run.ledger) as ledger:
        ledger.record_draws(1, [Draw(n, 0, n, prompt) for n in range(3)])
        ledger.commit_step([step(1, loss=0.5)], [PromptFate(0, "trained", "", 1)], [])
        skipped = step(2, verdict="skipped", reason="nonfinite_grad", loss=math.nan, grad_norm=math.inf)
        ledger.commit_step([skipped], [PromptFate(1, "dropped", "skipped: nonfinite_grad", 2)], [])
        ledger.commit_step([step(3)], [], [])
        ledger.supersede(2)
    return run


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run_command(["ledger", *arguments]) == 0
    return capsys.readouterr().out


def test_table(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, str(run.path)).splitlines()
    assert lines[0].split()[:6] == ["step", "attempt", "verdict", "reason", "policy_version", "loss"]
    assert lines[1].split()[:6] == ["1", "0", "applied", "ok", "0", "0.5"]
    assert lines[2].split()[2:7] == ["skipped", "nonfinite_grad", "0", "nan", "inf"]
    assert lines[3] == ""  # the superseded step is not shown
    assert lines[4] == (
        "prompts: 3 drawn = 1 trained + 0 partly trained + 1 dropped (1 skipped: nonfinite_grad) + 1 in flight"
    )


def test_json_is_strict_and_whole(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    records = json.loads(said(capsys, str(run.path), "--json"), parse_constant=refuse)
    assert [record["step"] for record in records] == [1, 2]
    assert set(records[0]) == set(StepRow.__dataclass_fields__)
    assert records[0]["spans"] == {"train": 0.5}
    assert (records[1]["loss"], records[1]["grad_norm"]) == ("nan", "inf")


def test_sql(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT fate, count(*) AS number FROM prompts GROUP BY fate ORDER BY fate"
    expected = ["fate       number", "dropped         1", "in_flight       1", "trained         1"]
    assert said(capsys, str(run.path), "--sql", sql).splitlines() == expected
    as_json = json.loads(said(capsys, str(run.path), "--sql", "SELECT max(step) AS last FROM steps", "--json"))
    assert as_json == [{"last": 3}]
    assert said(capsys, str(run.path), "--sql", "SELECT step, loss FROM steps WHERE step > 9") == "step  loss\n"


def test_sql_that_writes_is_misuse(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["ledger", str(run.path), "--sql", "DELETE FROM steps"]) == 2
    assert "the query failed" in capsys.readouterr().err


def test_digest(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    with Ledger.read(run.ledger) as view:
        expected = view.digest()
    assert said(capsys, str(run.path), "--digest") == f"weights none\nledger {expected}\n"
    for number, weights in ((2, "aa"), (10, "bb"), (11, "cc")):
        folder = run.checkpoints / f"step-{number:06d}"
        folder.mkdir()
        (folder / "loop.json").write_text("{}")
        write_manifest(folder, describe(folder, number, weights))
    (run.checkpoints / "step-000012").mkdir()  # never finished
    (run.checkpoints / ".tmp-step-000013").mkdir()
    (run.checkpoints / "step-000011" / "loop.json").unlink()  # a component is missing
    assert said(capsys, str(run.path), "--digest") == f"weights bb\nledger {expected}\n"
