"""W&B as it is: an offline run's own file read back, a missing key, a server that never answers."""

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from surefoot.config.schema import ObserveConfig
from surefoot.observe.rundir import RunDir
from surefoot.observe.trackers.fanout import Trackers
from surefoot.observe.trackers.lane import Lane
from surefoot.observe.trackers.wandb_process import WandbTracker

LONG = 120.0  # seconds: a busy machine takes its time to start W&B
BLOCK = 32768  # of LevelDB's log format, in which W&B keeps its records
KILLED_RUN = """
import os, signal, sys
from pathlib import Path
from surefoot.observe.trackers.wandb_process import WandbTracker
tracker = WandbTracker(Path(sys.argv[1]), name="tower", project="tides", mode="offline", settings={"seed": 7})
tracker.open()
tracker.log(2, {"loss": 0.75})
os.kill(os.getpid(), signal.SIGKILL)
"""


def records(path: Path) -> Iterator[Any]:
    from wandb.proto import wandb_internal_pb2

    data = path.read_bytes()
    assert data[:4] == b":W&B"
    position, whole = 7, b""
    while position + 7 <= len(data):
        if BLOCK - position % BLOCK < 7:
            position += BLOCK - position % BLOCK
            continue
        length, kind = struct.unpack_from("<HB", data, position + 4)
        whole += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # whole, or its last part
            yield wandb_internal_pb2.Record.FromString(whole)
            whole = b""


def history(path: Path) -> list[dict[str, str]]:
    """Metric -> value as W&B spells it, for each row."""
    rows = [record.history for record in records(path) if record.HasField("history")]
    rows = [{(item.key or "/".join(item.nested_key)): item.value_json for item in row.item} for row in rows]
    return [{key: value for key, value in row.items() if not key.startswith("_")} for row in rows]


def processes(logs: Path) -> list[str]:
    """W&B's processes that write into `logs`."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            files = [os.readlink(file) for file in (folder / "fd").iterdir()]
        except OSError:
            files = []  # it ended meanwhile
        if any(file.startswith(str(logs)) for file in files):
            found.append(folder.name)
    return [pid for pid in found if pid != str(os.getpid())]


def wait_until_gone(logs: Path, seconds: float) -> None:
    until = time.monotonic() + seconds
    while processes(logs):
        assert time.monotonic() < until, processes(logs)
        time.sleep(0.1)


def without_a_key(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", str(home / "none"))
    monkeypatch.setenv("HOME", str(home))


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    run = RunDir(tmp_path / "tower")
    run.create()
    return run


def test_offline_run_its_kill_and_its_resume(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")  # the run file decides
    before = dict(os.environ), sys.excepthook
    subprocess.run([sys.executable, "-c", KILLED_RUN, str(run.logs)], check=False, timeout=120)
    wait_until_gone(run.logs, 60)
    (killed,) = run.logs.glob("wandb/offline-run-*/run-*.wandb")
    assert history(killed) == [{"step": "2", "loss": "0.75"}]
    assert [record.exit.exit_code for record in records(killed) if record.HasField("exit")] == [1]

    config = ObserveConfig(trackers=["wandb"], wandb_mode="offline", wandb_project="tides")
    trackers = Trackers.open(
        config, run, {"seed": 8, "algo": {"clip": 0.2}}, resumed_at=1, warn=pytest.fail, close_seconds=LONG
    )
    trackers.log(2, {"loss": 0.5, "reward/mean": float("nan")})
    trackers.log(2, {"eval/heldout/accuracy": 0.25})
    trackers.log(3, {"loss": float("-inf")})
    trackers.close()
    wait_until_gone(run.logs, 5)
    assert (dict(os.environ), sys.excepthook) == before
    (resumed,) = set(run.logs.glob("wandb/offline-run-*/run-*.wandb")) - {killed}
    assert resumed.name == killed.name  # one run to W&B
    assert history(resumed) == [
        {"step": "2", "loss": "0.5", "reward/mean": "NaN"},
        {"step": "2", "eval/heldout/accuracy": "0.25"},
        {"step": "3", "loss": "-Infinity"},
    ]
    (about,) = (record.run for record in records(resumed) if record.HasField("run"))
    assert (about.display_name, about.project, about.host) == ("tower", "tides", "")
    shown = {item.key: item.value_json for item in about.config.update}
    assert (shown["seed"], shown["algo"]) == ("8", '{"clip":0.2}')


def test_online_without_a_key_asks_nobody(run: RunDir, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without_a_key(monkeypatch, tmp_path)
    warnings: list[str] = []
    trackers = Trackers.open(
        ObserveConfig(trackers=["wandb"]), run, {}, resumed_at=None, warn=warnings.append, close_seconds=LONG
    )
    trackers.log(1, {"loss": 0.5})
    trackers.close()
    assert len(warnings) == 1
    assert "No API key configured" in warnings[0]
    assert "1 of 1 records were not delivered" in warnings[0]
    wait_until_gone(run.logs, 10)


def test_server_that_never_answers(run: RunDir, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without_a_key(monkeypatch, tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
        tracker = WandbTracker(run.logs, name="tower", project="tides", mode="online", settings={})
        warnings: list[str] = []
        trackers = Trackers([Lane(tracker)], warnings.append, close_seconds=0.5)
        trackers.log(1, {"loss": 0.5})
        server.settimeout(60)
        with server.accept()[0]:  # W&B waits for this server now
            start = time.monotonic()
            trackers.close()
        assert time.monotonic() - start < 3.0
        assert warnings == ["tracker wandb: it did not finish in time; 1 of 1 records were not delivered"]
        wait_until_gone(run.logs, 10)


def test_process_that_dies(run: RunDir) -> None:
    tracker = WandbTracker(run.logs, name="tower", project="tides", mode="offline", settings={})
    warnings: list[str] = []
    trackers = Trackers([Lane(tracker)], warnings.append, close_seconds=LONG)
    until = time.monotonic() + 30
    while not (child := [pid for pid in processes(run.logs)]) and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(int(child[0]), signal.SIGKILL)
    trackers.log(1, {"loss": 0.5})
    trackers.close()
    (told,) = warnings
    assert f"its process ended; see {run.logs / 'wandb.log'}" in told
