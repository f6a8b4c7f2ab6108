"""metrics.jsonl is strict JSON, survives a torn line, and is cut back on a resume without losing what was there."""

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from surefoot.observe.metrics import MetricsLog, Truncation, read_metrics
from surefoot.types.errors import SurefootError


def refuse(name: str) -> Any:
    raise AssertionError(f"{name} is not strict JSON")


@pytest.fixture
def log(tmp_path: Path) -> MetricsLog:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for step in (1, 2, 3):
        log.append(step, 100.0 + step, {"loss": 0.1 * step})
    return log


def test_lines_are_strict_json(log: MetricsLog) -> None:
    log.append(4, 104.0, {"loss": math.nan, "grad": math.inf, "low": -math.inf, "reward/mean": 0.1})
    lines = log.path.read_text().splitlines()
    records = [json.loads(line, parse_constant=refuse) for line in lines]
    assert records[0] == {"step": 1, "time": 101.0, "loss": 0.1}
    assert records[3] == {"step": 4, "time": 104.0, "loss": "nan", "grad": "inf", "low": "-inf", "reward/mean": 0.1}


def test_read_back(log: MetricsLog) -> None:
    log.append(4, 104.0, {"loss": math.nan, "grad": math.inf})
    back = read_metrics(log.path)
    assert [record["step"] for record in back] == [1, 2, 3, 4]
    assert back[2]["loss"] == 0.1 * 3  # to the last bit
    assert math.isnan(back[3]["loss"])
    assert back[3]["grad"] == math.inf


def test_reserved_names(log: MetricsLog) -> None:
    with pytest.raises(ValueError, match="time cannot name a metric"):
        log.append(4, 104.0, {"time": 1.0})
    assert len(read_metrics(log.path)) == 3


def test_truncate_moves_later_lines(log: MetricsLog, tmp_path: Path) -> None:
    later = log.path.read_bytes().splitlines(keepends=True)[2]
    assert log.truncate(2, tmp_path) == Truncation(kept=2, moved=1, torn=0)
    assert [record["step"] for record in read_metrics(log.path)] == [1, 2]
    log.append(3, 203.0, {"loss": 9.0})
    assert log.truncate(2, tmp_path) == Truncation(kept=2, moved=1, torn=0)
    kept = (tmp_path / "metrics-superseded.jsonl").read_bytes().splitlines(keepends=True)
    assert kept[0] == later
    assert json.loads(kept[1])["loss"] == 9.0


def test_truncate_with_nothing_to_do(log: MetricsLog, tmp_path: Path) -> None:
    assert log.truncate(3, tmp_path) == Truncation(3, 0, 0)
    assert os.listdir(tmp_path) == ["metrics.jsonl"]
    assert MetricsLog(tmp_path / "none.jsonl").truncate(3, tmp_path) == Truncation(0, 0, 0)


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_line_torn_anywhere(log: MetricsLog, tmp_path: Path, cut: int) -> None:
    whole = log.path.read_bytes()
    cut = min(cut, len(whole.splitlines(keepends=True)[2]) - 1)
    log.path.write_bytes(whole[:-cut])
    assert [record["step"] for record in read_metrics(log.path)] == [1, 2]
    with pytest.raises(SurefootError, match="ends in a torn line"):
        log.append(4, 104.0, {})
    assert log.truncate(3, tmp_path) == Truncation(kept=2, moved=1, torn=1)
    torn = (tmp_path / "metrics-superseded.jsonl").read_bytes()
    assert torn == whole.splitlines()[2][: len(torn) - 1] + b"\n"
    log.append(3, 103.0, {"loss": 1.0})
    assert [record["step"] for record in read_metrics(log.path)] == [1, 2, 3]


def test_damage_inside_is_an_error(log: MetricsLog, tmp_path: Path) -> None:
    lines = log.path.read_bytes().splitlines(keepends=True)
    log.path.write_bytes(lines[0] + b"\0\0\0\n" + lines[2])
    with pytest.raises(SurefootError, match=r"metrics.jsonl:2: not a record"):
        read_metrics(log.path)
    assert log.truncate(3, tmp_path) == Truncation(kept=2, moved=1, torn=1)
