"""Retries, skip budget, halts: what the worker makes of verdicts, on a real trainer with gradients made to fail."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from support import make_samples
from surefoot.config.schema import AlgoConfig, OptimConfig, PrecisionConfig, TrainConfig
from surefoot.loop.worker import Update, Worker
from surefoot.observe.console import Console
from surefoot.train.roles import Roles, load_policy
from surefoot.train.shard import World
from surefoot.train.step import Trainer, TrainerConfig

LENGTHS = [(3, 5), (7, 30), (2, 1), (10, 12)]


def worker(folder: Path, compute: str = "fp16", **train: object) -> Worker:
    precision = PrecisionConfig(compute=compute, init_scale=1024.0, growth_interval=3)
    config = TrainConfig(**train)
    role = load_policy(str(folder), World(0, 1, torch.device("cpu")), precision)
    settings = TrainerConfig(config, AlgoConfig(), OptimConfig(lr=1e-3), precision, 1.0, 0, 0)
    return Worker(Trainer(Roles(role, None), settings), config, 0, Console(quiet=True).progress)


def fail_attempts(trainer: Trainer, attempts: Sequence[bool]) -> None:
    """Gradients of the attempts marked True are not finite; after the list they are healthy."""
    left = list(attempts)

    def hook(grad: torch.Tensor) -> torch.Tensor:
        return grad * torch.inf if left and left.pop(0) else grad

    trainer.masters.params[0].register_hook(hook)


def train(worker: Worker, step: int = 1, seed: int = 0) -> Update:
    (update,) = worker.train(make_samples(LENGTHS, seed), step=step, version=0)
    return update


def test_scale_trace_of_the_reference_values(model_folder: Path) -> None:
    """Overflow on attempts 1 and 2 of 7, growth after 3 clean ones: used 1024, 512, 256, 256, 256, 512, 512."""
    this = worker(model_folder)
    fail_attempts(this.trainer, [True, True])
    reports = [report for step in range(1, 6) for report in train(this, step, seed=step).reports]
    assert [r.loss_scale for r in reports] == [1024, 512, 256, 256, 256, 512, 512]
    assert [r.verdict for r in reports] == ["skipped", "skipped", *["applied"] * 5]
    assert [r.attempt for r in reports] == [0, 1, 2, 0, 0, 0, 0]


def test_a_retry_loses_no_sample(model_folder: Path) -> None:
    this = worker(model_folder)
    fail_attempts(this.trainer, [True] * 8)
    update = train(this)
    assert [r.reason for r in update.reports] == ["overflow"] * 8 + ["ok"]
    assert update.settled.loss_scale == 1024 / 2**8
    assert this.trainer.updates == 1


def test_a_nan_gradient_is_not_mistaken_for_a_scale(model_folder: Path) -> None:
    """It survives every scale down to the floor: the scale is restored and the reason says gradient."""
    this = worker(model_folder, max_retries=24)
    fail_attempts(this.trainer, [True] * 1000)
    update = train(this)
    assert len(update.reports) == 11  # 1024 down to 1
    assert {r.reason for r in update.reports[:-1]} == {"overflow"}
    assert (update.settled.verdict, update.settled.reason) == ("skipped", "nonfinite_grad")
    assert update.settled.next_loss_scale == this.trainer.scaler.loss_scale == 1024


def test_retries_end(model_folder: Path) -> None:
    this = worker(model_folder, max_retries=3)
    fail_attempts(this.trainer, [True] * 1000)
    update = train(this)
    assert [r.reason for r in update.reports] == ["overflow"] * 3 + ["nonfinite_grad"]
    assert this.trainer.scaler.loss_scale == 1024


def test_skip_on_overflow_keeps_the_lowered_scale(model_folder: Path) -> None:
    this = worker(model_folder, on_overflow="skip")
    fail_attempts(this.trainer, [True])
    update = train(this)
    assert [r.reason for r in update.reports] == ["overflow"]
    assert this.trainer.scaler.loss_scale == 512 and this.consecutive_skips == 0


def test_the_skip_budget_halts(model_folder: Path) -> None:
    this = worker(model_folder, "fp32", max_consecutive_skips=2)
    fail_attempts(this.trainer, [True, True, False, True, True, True])
    settled = [train(this, step).settled for step in range(1, 7)]
    assert [r.verdict for r in settled] == ["skipped", "skipped", "applied", "skipped", "skipped", "halted"]
    assert settled[-1].reason == "skip_budget_exhausted"


def test_halt_where_configured(model_folder: Path) -> None:
    this = worker(model_folder, "fp32", on_nonfinite="halt", updates_per_rollout=2)
    fail_attempts(this.trainer, [True])
    updates = this.train(make_samples(LENGTHS), step=1, version=0)
    assert [(u.settled.verdict, u.settled.reason) for u in updates] == [("halted", "nonfinite_grad")]


def test_mini_batches_and_epochs_clip(model_folder: Path) -> None:
    """Two mini-batches, two epochs: four updates, `old` from before the first, so later ratios leave the clip range."""
    this = worker(model_folder, "fp32", updates_per_rollout=2, epochs=2)
    this.trainer.optimizer.param_groups[0]["lr"] = 0.0
    updates = this.train(make_samples(LENGTHS), step=1, version=0)
    assert len(updates) == 4
    assert all(update.batch.old_source == "trainer" for update in updates)
    clipped = [update.settled.metrics["clip_fraction"] for update in updates]
    ratios = [update.settled.metrics["ratio"] for update in updates]
    assert clipped[0] == 0 and ratios[0] == pytest.approx(1.0, abs=1e-5)
    assert ratios[2] != pytest.approx(1.0, abs=1e-5)
    assert [r.attempt for u in updates for r in u.reports] == [0, 1, 2, 3]


def test_no_samples_is_an_empty_batch(model_folder: Path) -> None:
    this = worker(model_folder, "fp32")
    (update,) = this.train([], step=1, version=0)
    assert (update.settled.verdict, update.settled.reason) == ("skipped", "empty_batch")
    assert this.consecutive_skips == 1
