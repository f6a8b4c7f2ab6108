"""What a training attempt costs, and how much of it is verdict, evidence and ledger.

Two ways that check each other: each part's own time, timed with the model taken away; and whole steps with everything
beside whole steps without, in pairs whose order alternates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import torch

from surefoot.bench.access import backward, before_update, known_logprobs, without_model
from surefoot.bench.clock import Cost, Syncs, SyncWatch, Timing, Work, kernels_ms, serial_ms, time_once
from surefoot.bench.plain import plain_backward, plain_step
from surefoot.bench.stage import Case, Settings, Stage, open_stage
from surefoot.train.clip import grad_norm_sq
from surefoot.types.errors import SurefootError

WARM_UP = 2  # steps before anything is timed


@dataclass(frozen=True, slots=True)
class Machine:
    device: str
    torch: str


@dataclass(frozen=True, slots=True)
class OwnTime:
    """What is beyond forward, backward, clipping and the optimizer. Clipping needs the norm whatever else is done."""

    norm: Cost
    sums: Cost  # beside each micro-batch's loss
    evidence: Cost  # the vector, its all-reduce, the decision, the report
    weights: Cost  # the look at every weight after the step's last update
    ledger: Cost  # draws, rows and fates, the metrics line

    @property
    def total(self) -> Cost:
        return self.sums + self.evidence + self.weights + self.ledger

    @property
    def total_with_norm(self) -> Cost:
        return self.total + self.norm


@dataclass(frozen=True, slots=True)
class StepCost:
    settings: Settings
    machine: Machine
    parameters: int
    micro_batches: int
    attempts: tuple[Timing, ...]
    own: OwnTime
    ratios: tuple[float, ...]  # with everything / written plainly, a pair each
    syncs: Syncs | None  # of a step, before and after the decision; None on the CPU

    @property
    def attempt(self) -> Timing:
        """Medians."""
        devices = [timing.device for timing in self.attempts if timing.device is not None]
        return Timing(median(timing.wall for timing in self.attempts), median(devices) if devices else None)

    def share(self, milliseconds: float) -> float:
        """Of the attempt's wall time."""
        return milliseconds / self.attempt.wall


def measure_step(settings: Settings) -> StepCost:
    """Errors: UsageError for settings that cannot be run; SurefootError where a step is not applied."""
    with open_stage(settings) as stage:
        for _ in range(WARM_UP):
            _whole_step(stage, stage.case())
        case = stage.case()
        parameters = sum(master.numel() for master in stage.trainer.masters.tensors)
        return StepCost(
            settings=settings,
            machine=describe_machine(stage.world.device),
            parameters=parameters,
            micro_batches=len(case.batch.microbatches_RM[0]),
            attempts=_attempts(stage),
            ratios=_ratios(stage),
            own=_own_time(stage, case),
            syncs=_syncs(stage) if stage.world.device.type == "cuda" else None,
        )


def describe_machine(device: torch.device) -> Machine:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"cpu, {torch.get_num_threads()} threads"
    return Machine(name, torch.__version__)


def _whole_step(stage: Stage, case: Case) -> None:
    """As a worker and a recorder do it."""
    report = stage.attempt(case)
    ruined = stage.trainer.nonfinite_parameters()
    if ruined:
        raise SurefootError(f"the benchmark's own weights are ruined: {', '.join(ruined[:4])}")
    stage.record(case, report)


def _attempts(stage: Stage) -> tuple[Timing, ...]:
    timings = []
    for _ in range(stage.settings.repeats):
        case = stage.case()
        timings.append(time_once(lambda case=case: stage.attempt(case), stage.world.device))  # type: ignore[misc]
    return tuple(timings)


def _ratios(stage: Stage) -> tuple[float, ...]:
    """Of an even number of pairs, so that each order is as frequent."""
    plain_step(stage.trainer, stage.case().batch)  # warm-up
    ratios = []
    for number in range(stage.settings.repeats + stage.settings.repeats % 2):
        case = stage.case()

        def whole(case: Case = case) -> None:
            _whole_step(stage, case)

        def plain(case: Case = case) -> None:
            plain_step(stage.trainer, case.batch)

        spent = {work: serial_ms(work, stage.world.device) for work in ((whole, plain), (plain, whole))[number % 2]}
        ratios.append(spent[whole] / spent[plain])
    return tuple(ratios)


def _own_time(stage: Stage, case: Case) -> OwnTime:
    trainer, device, repeats = stage.trainer, stage.world.device, stage.settings.repeats
    with known_logprobs(trainer, case.batch):
        ours, plain = _costs(
            [lambda: backward(trainer, case.batch), lambda: plain_backward(trainer, case.batch)], device, repeats
        )
    with without_model(trainer, case.batch):
        gradients = trainer.masters.gradients()
        rest, norm, weights = _costs(
            [lambda: stage.attempt(case), lambda: grad_norm_sq(gradients), trainer.nonfinite_parameters],
            device,
            repeats,
        )
        report = stage.attempt(case)
    written = []
    for _ in range(repeats):
        new = stage.case()
        written.append(serial_ms(lambda new=new: stage.record(new, report), device))  # type: ignore[misc]
    host_only = 0.0 if device.type == "cuda" else None
    return OwnTime(
        norm=norm, sums=ours - plain, evidence=rest - norm, weights=weights, ledger=Cost(median(written), host_only)
    )


def _costs(works: Sequence[Work], device: torch.device, repeats: int) -> list[Cost]:
    """Of each, the median of interleaved runs, after one that does not count."""
    for work in works:
        work()
    rounds = [[serial_ms(work, device) for work in works] for _ in range(repeats)]
    return [
        Cost(median(times), kernels_ms(work, device))
        for times, work in zip(zip(*rounds, strict=True), works, strict=True)
    ]


def _syncs(stage: Stage) -> Syncs:
    case, watch = stage.case(), SyncWatch()
    with before_update(stage.trainer, watch.mark), watch.watching():
        _whole_step(stage, case)
    return watch.syncs
