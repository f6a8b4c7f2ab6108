"""The serial loop under torchrun: two ranks sample, agree, train one policy, and rank 0 writes one ledger."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from runs import digests, query
from support import save_run
from surefoot.config.load import load_config
from surefoot.loop.run import run
from surefoot.observe.metrics import read_metrics

ROOT = Path(__file__).parents[2]
LAUNCH = 'from surefoot.cli.main import main\n\nif __name__ == "__main__":\n    main()\n'


@pytest.fixture
def command(tmp_path: Path) -> Path:
    script = tmp_path / "surefoot_main.py"
    script.write_text(LAUNCH, encoding="utf8")
    return script


def test_two_ranks_do_what_one_does(tmp_path: Path, torchrun: Callable[..., str], command: Path) -> None:
    """The first step's tokens and rewards are those of one rank; gradients are equal up to rounding."""
    config = save_run(tmp_path, rows=5, text="rollout = {prompts_per_step = 3}\nloop = {steps = 3}")
    run(load_config(config, f'observe.run_dir="{tmp_path / "one"}"'))
    torchrun(command, "train", str(config), f'observe.run_dir="{tmp_path / "two"}"', "train.updates_per_rollout=1")
    columns = "SELECT reward_mean, num_tokens, num_samples, loss, grad_norm, mismatch_max FROM steps ORDER BY step"
    one, two = query(tmp_path / "one", columns), query(tmp_path / "two", columns)
    assert one[0][:3] == two[0][:3]
    assert one[0][4] == pytest.approx(two[0][4], rel=1e-4)
    assert len(two) == 3 and max(row[5] for row in two) < 1e-5
    resumed = torchrun(
        command, "train", str(config), f'observe.run_dir="{tmp_path / "two"}"', "loop.steps=4", "--resume"
    )
    assert "resumed after step 3" in resumed


def test_a_refreshed_reference_on_two_ranks(tmp_path: Path, torchrun: Callable[..., str], command: Path) -> None:
    """Refreshed after each update, checkpointed sharded, resumed: the KL stays that of one rank."""
    text = "algo = {kl_coef = 0.1}\nreference = {update_interval = 1}\nloop = {steps = 3}"
    config = save_run(tmp_path, rows=5, text=text)
    run(load_config(config, f'observe.run_dir="{tmp_path / "one"}"'))
    where = f'observe.run_dir="{tmp_path / "two"}"'
    torchrun(command, "train", str(config), where, "loop.steps=2")
    torchrun(command, "train", str(config), where, "--resume")
    kl = [
        [line["train/kl_reference"] for line in read_metrics(tmp_path / name / "metrics.jsonl")]
        for name in ("one", "two")
    ]
    assert kl[1] == pytest.approx(kl[0], rel=1e-3, abs=1e-6)


STOPPING = """import os, signal
from surefoot.engines.inprocess.engine import InProcessEngine

calls, step = [0], InProcessEngine._step

def counted(engine):
    calls[0] += 1
    if calls[0] == 10 and os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGTERM)
    step(engine)

InProcessEngine._step = counted
"""


def test_a_signal_to_one_rank_stops_both_at_one_step(
    tmp_path: Path, torchrun: Callable[..., str], command: Path
) -> None:
    config = save_run(tmp_path, rows=5, text="loop = {steps = 3}\ncheckpoint = {every = 0}")
    one, two = (f'observe.run_dir="{tmp_path / name}"' for name in ("one", "two"))
    torchrun(command, "train", str(config), one)
    stopping = tmp_path / "stopping.py"
    stopping.write_text(STOPPING + LAUNCH, encoding="utf8")
    said = torchrun(stopping, "train", str(config), two)
    assert "stopped by SIGTERM" in said
    assert digests(tmp_path / "two")[0] != digests(tmp_path / "one")[0]
    torchrun(command, "train", str(config), two, "--resume")
    assert digests(tmp_path / "two") == digests(tmp_path / "one")


@pytest.mark.slow
def test_the_quickstart_learns_on_two_ranks(tmp_path: Path, torchrun: Callable[..., str], command: Path) -> None:
    import subprocess

    model = tmp_path / "model"
    prepare = [sys.executable, str(ROOT / "examples/quickstart/prepare.py"), "--out", str(model)]
    subprocess.run(prepare, check=True)
    torchrun(
        command,
        "train",
        str(ROOT / "examples/quickstart/run.toml"),
        f'model.path="{model}"',
        f'data.path="{model}/train.jsonl"',
        f'eval.sets.0.path="{model}/heldout.jsonl"',
        f'observe.run_dir="{tmp_path / "run"}"',
        timeout=280,
    )
    accuracy = [
        line["eval/heldout/accuracy"]
        for line in read_metrics(tmp_path / "run" / "metrics.jsonl")
        if "eval/heldout/accuracy" in line
    ]
    assert accuracy[-1] - accuracy[0] >= 0.3
