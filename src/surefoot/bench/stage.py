"""What the step benchmark runs: a trainer of a known shape, fake rollouts, and a real ledger in a temporary folder."""

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from surefoot.bench.shapes import SHAPES, make_policy, pick_world
from surefoot.config.schema import AlgoConfig, LengthsConfig, ObserveConfig, OptimConfig, PrecisionConfig, TrainConfig
from surefoot.data.samples import samples_from_groups
from surefoot.loop.advantages import AdvantageEstimator, Advantages
from surefoot.loop.collect import Collected
from surefoot.loop.fake import FakeRollouts
from surefoot.loop.outcome import StepOutcome
from surefoot.loop.record import Recorder
from surefoot.loop.worker import Attempt, Update
from surefoot.observe.console import Console
from surefoot.observe.rundir import RunDir
from surefoot.observe.spans import Spans
from surefoot.train.prepare import build_batch, score
from surefoot.train.roles import Roles
from surefoot.train.shard import World
from surefoot.train.step import Trainer, TrainerConfig
from surefoot.types.errors import SurefootError, UsageError
from surefoot.types.rollout import Draw, Sample
from surefoot.types.train import Batch, StepReport

GROUP_SIZES = (8, 4, 2)
PROMPT_SHARE = 5  # one token in so many is the prompt's, as in 128 + 512
ALWAYS_CLIPS = 1e-6  # a norm no gradient stays under, so that every way of writing a step has the same work to do


@dataclass(frozen=True, slots=True)
class Settings:
    shape: str
    precision: Literal["fp32", "bf16", "fp16"]
    samples: int  # rollouts a step
    tokens: int  # of each, prompt included
    max_tokens: int  # of a micro-batch
    repeats: int
    device: Literal["auto", "cpu", "cuda"]


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One step's rollouts and its batch; every step of a ledger needs its own."""

    step: int
    draws: tuple[Draw, ...]
    collected: Collected
    advantages: Advantages
    samples: tuple[Sample, ...]
    batch: Batch

    def outcome(self, report: StepReport) -> StepOutcome:
        update = Update((Attempt(self.batch, replace(report, step=self.step)),), {})
        return StepOutcome(self.step, self.draws, self.collected, self.advantages, self.samples, (update,), Spans())


class Stage:
    def __init__(self, settings: Settings, folder: Path) -> None:
        refuse_impossible(settings)
        self.settings, self.world = settings, pick_world(settings.device)
        self.trainer = _build_trainer(settings, self.world)
        group_size = next(size for size in GROUP_SIZES if settings.samples % size == 0)
        prompt = max(1, settings.tokens // PROMPT_SHARE)
        self.rollouts = FakeRollouts(
            [LengthsConfig(prompt=prompt, completion=settings.tokens - prompt)],
            group_size=group_size,
            vocabulary=SHAPES[settings.shape].vocabulary,
            version=lambda: 0,
            seed=0,
        )
        self.groups = settings.samples // group_size
        self.estimate = AdvantageEstimator(self.trainer.config.algo, None)
        run = RunDir(folder / "run")
        run.create()
        self.recorder = Recorder(run, ObserveConfig(save_rollouts=False, show_samples=0), Console(quiet=True))
        self._step = 0

    def case(self) -> Case:
        """The next step's, scored by the policy as it is: fp32 takes the sampler's word for `old`, as a run does."""
        self._step += 1
        draws = self.rollouts.draw(self.groups)
        collected = asyncio.run(self.rollouts.collect(draws, lambda: None))
        advantages = self.estimate(collected.groups, self._step)
        samples = samples_from_groups(collected.groups, advantages.by_rollout)
        config, roles = self.trainer.config, self.trainer.roles
        batch = build_batch(samples, score(samples, roles, config, 0), config, roles.policy)
        return Case(self._step, tuple(draws), collected, advantages, tuple(samples), batch)

    def attempt(self, case: Case) -> StepReport:
        """Raises `SurefootError` where it is not applied: the time of a skip is not that of a step."""
        report = self.trainer.attempt(case.batch, step=case.step, attempt=0, version=0)
        if report.verdict != "applied":
            raise SurefootError(f"step {case.step} of the benchmark was {report.verdict}: {report.reason}")
        return report

    def record(self, case: Case, report: StepReport) -> None:
        """What a run writes of a step: the draws, the ledger's rows and the metrics line. No rollouts file."""
        self.recorder.drawn(case.step, case.draws)
        self.recorder.record(case.outcome(report), full_marks=1.0)


@contextmanager
def open_stage(settings: Settings) -> Iterator[Stage]:
    with tempfile.TemporaryDirectory(prefix="surefoot-bench-") as folder:
        stage = Stage(settings, Path(folder))
        try:
            yield stage
        finally:
            stage.recorder.close()


def refuse_impossible(settings: Settings) -> None:
    """UsageError, naming the option, for what cannot be run."""
    if settings.samples % 2:
        raise UsageError(f"--samples {settings.samples}: must be even, rewards are compared within groups")
    if settings.tokens > settings.max_tokens + 1:
        raise UsageError(f"--tokens {settings.tokens}: a rollout does not fit --max-tokens {settings.max_tokens}")
    longest = SHAPES[settings.shape].positions
    if settings.tokens > longest:
        raise UsageError(f"--tokens {settings.tokens}: the shape {settings.shape} is made for {longest} positions")


def _build_trainer(settings: Settings, world: World) -> Trainer:
    precision = PrecisionConfig(compute=settings.precision, init_scale=1024.0)  # no overflow is wanted
    config = TrainerConfig(
        train=TrainConfig(max_tokens=settings.max_tokens, max_grad_norm=ALWAYS_CLIPS),
        algo=AlgoConfig(),
        optim=OptimConfig(),
        precision=precision,
        temperature=1.0,
        constant_length=settings.tokens,
        total_updates=0,
    )
    return Trainer(Roles(make_policy(SHAPES[settings.shape], world, precision), None), config)
