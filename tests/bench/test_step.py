"""`surefoot bench step`: what it says is complete and adds up. No time is asserted."""

import json
import math
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from surefoot.bench.access import backward, before_update, known_logprobs, replaced, without_model
from surefoot.bench.clock import SYNC_WARNING, Cost, SyncWatch, time_once
from surefoot.bench.plain import plain_backward, plain_step
from surefoot.bench.shapes import SHAPES, make_policy
from surefoot.bench.stage import Settings, Stage, open_stage
from surefoot.cli.main import run_command
from surefoot.config.schema import PrecisionConfig
from surefoot.observe.ledger_view import LedgerView
from surefoot.observe.metrics import read_metrics
from surefoot.train.clip import grad_norm_sq
from surefoot.train.shard import World
from surefoot.train.step import Trainer
from surefoot.types.errors import SurefootError

SMALL = ["--device", "cpu", "--samples", "4", "--tokens", "20"]
PARTS = ("norm", "sums", "evidence", "weights", "ledger")
SETTINGS = Settings("tiny", "fp32", samples=4, tokens=20, max_tokens=40, repeats=5, device="cpu")


@pytest.fixture(params=["fp32", "bf16", "fp16"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Two stages that are equal to the bit."""
    settings = Settings("tiny", request.param, samples=4, tokens=20, max_tokens=40, repeats=5, device="cpu")
    stages = [Stage(settings, tmp_path / name) for name in "ab"]
    yield stages
    for stage in stages:
        stage.recorder.close()


def masters(trainer: Trainer) -> torch.Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in trainer.masters.tensors])


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_json_is_complete_and_adds_up(precision: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["bench", "step", *SMALL, "--precision", precision, "--max-tokens", "40", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["benchmark"] == "step"
    settings = record["settings"]
    assert {"device", "torch"} <= settings.keys()
    expected = {"shape": "tiny", "precision": precision, "samples": 4, "tokens": 20, "max_tokens": 40, "repeats": 5}
    assert {name: settings[name] for name in expected} == expected
    assert record["micro_batches"] == 2  # 4 x 19 positions, 40 in each
    wall = record["attempt"]["wall_ms"]
    walls = record["attempt"]["all_wall_ms"]
    assert len(walls) == 5 and sorted(walls)[2] == wall > 0
    assert record["attempt"]["device_ms"] is None and record["syncs"] is None
    assert record["attempt"]["tokens_per_second"] == pytest.approx(80e3 / wall)
    own = record["own"]
    assert own["total"]["serial_ms"] == pytest.approx(sum(own[name]["serial_ms"] for name in PARTS[1:]))
    with_norm = own["total"]["serial_ms"] + own["norm"]["serial_ms"]
    assert own["total_with_norm"]["serial_ms"] == pytest.approx(with_norm)
    for part in (*PARTS, "total", "total_with_norm"):
        assert own[part]["share"] == own[part]["share_bound"] == pytest.approx(own[part]["serial_ms"] / wall)
        assert own[part]["kernels_ms"] is None
    pairs = record["pairs"]
    assert len(pairs["ratios"]) == 6  # even, so that each order comes as often as the other
    assert (min(pairs["ratios"]), max(pairs["ratios"])) == (pairs["low"], pairs["high"])
    assert pairs["low"] <= pairs["median"] <= pairs["high"]
    assert min(own["norm"]["serial_ms"], own["ledger"]["serial_ms"], *walls, *pairs["ratios"]) > 0


def test_the_table_has_a_line_for_each_figure(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["bench", "step", *SMALL, "--precision", "fp32"]) == 0
    text = capsys.readouterr().out
    for line in ("attempt", "gradient norm", "ledger and metrics line", "cost without the norm", "cost with the norm"):
        assert f"\n{line}" in text
    assert "whole step / written plainly: " in text
    assert text.endswith("host synchronisations: not applicable on the CPU\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["step", "--samples", "3"], "--samples 3: must be even"),
        (["step", "--tokens", "100", "--max-tokens", "98"], "--tokens 100: a rollout does not fit --max-tokens 98"),
        (["step", "--tokens", "5000"], "--tokens 5000: the shape tiny is made for 4096 positions"),
        (["step", "--repeats", "4"], "--repeats"),
        (["step", "--shape", "7b"], "--shape"),
        (["stpe"], "'step'"),
        ([], "Missing argument"),
    ],
)
def test_misuse_is_one_line_and_2(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["bench", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert said in captured.err


@pytest.mark.skipif(torch.cuda.is_available(), reason="cuda is there")
def test_cuda_where_there_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["bench", "step", "--device", "cuda"]) == 2
    assert "--device cuda: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "millions"),
    # The published sizes of Qwen3-0.6B and SmolLM2-135M, tied embeddings counted once.
    [("0.6b", 596.05), ("135m", 134.52)],
)
def test_shapes_have_the_published_sizes(name: str, millions: float) -> None:
    role = make_policy(SHAPES[name], World(0, 1, torch.device("meta")), PrecisionConfig())
    assert sum(parameter.numel() for _, parameter in role.parameters()) / 1e6 == pytest.approx(millions, abs=0.01)


def test_the_plain_step_is_the_same_update(pair: list[Stage]) -> None:
    """Otherwise the pairs would compare two different things. Both clip: the norm is far above the limit."""
    ours, plain = pair
    case = ours.case()
    start = masters(ours.trainer).clone()
    ours.attempt(case)
    plain_step(plain.trainer, plain.case().batch)
    moved = (masters(ours.trainer) - start).norm()
    assert moved > 0
    assert (masters(ours.trainer) - masters(plain.trainer)).norm() < 1e-3 * moved


def test_the_plain_gradient_is_the_same(pair: list[Stage]) -> None:
    ours, plain = pair
    backward(ours.trainer, ours.case().batch)
    plain_backward(plain.trainer, plain.case().batch)
    gradients = [torch.cat([g.flatten() for g in stage.trainer.masters.gradients()]) for stage in pair]
    assert gradients[0].norm() > 0
    assert (gradients[0] - gradients[1]).norm() < 1e-5 * gradients[0].norm()


def test_an_attempt_without_model_leaves_the_trainer_alone(pair: list[Stage]) -> None:
    stage, twin = pair
    trainer, case = stage.trainer, stage.case()
    calls: list[int] = []
    before, scaler = masters(trainer).clone(), trainer.scaler.state_dict()
    with (
        replaced(trainer.optimizer, "step", lambda: calls.append(1)),
        replaced(trainer.masters, "publish", lambda: calls.append(2)),
        without_model(trainer, case.batch),
        replaced(trainer.roles.policy.model, "forward", lambda *_: calls.append(3)),
    ):
        report = stage.attempt(case)
        assert report.verdict == "applied" and report.grad_norm == 0
        assert grad_norm_sq(trainer.masters.gradients()) == 0
    assert not calls
    assert torch.equal(masters(trainer), before)
    assert (trainer.scaler.state_dict(), trainer.updates) == (scaler, 0)
    assert not trainer.masters.gradients()
    assert stage.attempt(case) == twin.attempt(twin.case())
    assert torch.equal(masters(trainer), masters(twin.trainer))


def test_known_logprobs_run_no_model(pair: list[Stage]) -> None:
    stage, _ = pair
    case = stage.case()
    right = backward(stage.trainer, case.batch).totals
    stage.trainer.masters.clear_gradients()
    with known_logprobs(stage.trainer, case.batch):
        for _ in range(2):
            sums = backward(stage.trainer, case.batch).totals
            assert sums["loss"] == pytest.approx(right["loss"].item(), abs=1e-6)
            assert not stage.trainer.masters.gradients()
            plain_backward(stage.trainer, case.batch)
    backward(stage.trainer, case.batch)
    assert stage.trainer.masters.gradients()


def test_what_is_recorded_is_a_run_s(tmp_path: Path) -> None:
    stage = Stage(SETTINGS, tmp_path)
    for _ in range(2):
        case = stage.case()
        stage.record(case, stage.attempt(case))
    stage.recorder.close()
    with LedgerView.read(tmp_path / "run" / "ledger.sqlite") as view:
        assert [(row.step, row.verdict) for row in view.steps()] == [(1, "applied"), (2, "applied")]
        balance = view.balance()
    assert balance.drawn == balance.trained == 2
    assert len(read_metrics(tmp_path / "run" / "metrics.jsonl")) == 2


def test_a_skip_is_no_figure() -> None:
    with open_stage(SETTINGS) as stage:
        next(iter(stage.trainer.masters.tensors)).data.fill_(math.nan)
        with pytest.raises(SurefootError, match="step 1 of the benchmark was halted: nonfinite_param"):
            stage.attempt(stage.case())


def test_the_decision_lies_before_the_update() -> None:
    with open_stage(SETTINGS) as stage:
        case, seen = stage.case(), list[torch.Tensor]()
        before = masters(stage.trainer).clone()
        with before_update(stage.trainer, lambda: seen.append(masters(stage.trainer).clone())):
            stage.attempt(case)
        assert len(seen) == 1 and torch.equal(seen[0], before)
        assert not torch.equal(masters(stage.trainer), before)


def test_syncs_are_counted_by_place_and_side() -> None:
    """torch's debug mode warns at the place; the texts are its own, other warnings do not count."""
    watch = SyncWatch()
    with watch.catching():
        for _ in range(2):
            warnings.warn_explicit(f"{SYNC_WARNING} (Triggered internally)", UserWarning, "/a/train/step.py", 7)
        warnings.warn_explicit("old name", DeprecationWarning, "/a/train/step.py", 8)
        watch.mark()
        warnings.warn_explicit(SYNC_WARNING, UserWarning, "/a/train/mismatch.py", 9)
    assert watch.syncs.before == {"train/step.py:7": 2}
    assert watch.syncs.after == {"train/mismatch.py:9": 1}


def test_syncs_without_a_mark_are_refused() -> None:
    with pytest.raises(ValueError, match="nothing was marked"):
        _ = SyncWatch().syncs


def test_costs_add_up() -> None:
    both = Cost(2.0, 0.5) + Cost(1.0, 0.25)
    assert (both.serial, both.kernels, both.bound) == (3.0, 0.75, 3.75)
    assert (both - Cost(1.0, 0.25)) == Cost(2.0, 0.5)
    assert (Cost(2.0, None) + Cost(1.0, 0.5)).bound == 3.0


def test_a_cpu_has_no_device_time() -> None:
    timing = time_once(lambda: sum(range(1000)), torch.device("cpu"))
    assert timing.wall > 0 and timing.device is None


def test_replaced_puts_back_what_was_there() -> None:
    class Owner:
        value = 1

    owner = Owner()
    with replaced(owner, "value", 2):
        assert owner.value == 2
    assert owner.value == 1 and not vars(owner)
    owner.value = 3
    with pytest.raises(ZeroDivisionError), replaced(owner, "value", 4):
        raise ZeroDivisionError
    assert owner.value == 3
