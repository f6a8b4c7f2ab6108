"""What one step did, complete: all that is recorded about it derives from this."""

from collections.abc import Iterator
from dataclasses import dataclass

from surefoot.loop.advantages import Advantages
from surefoot.loop.collect import Collected
from surefoot.loop.worker import Update
from surefoot.observe.spans import Spans
from surefoot.types.rollout import Draw, Rollout, Sample, SampleRef
from surefoot.types.train import StepReport


@dataclass(frozen=True, slots=True, eq=False)
class StepOutcome:
    step: int
    draws: tuple[Draw, ...]
    collected: Collected
    advantages: Advantages
    samples: tuple[Sample, ...]
    updates: tuple[Update, ...]
    spans: Spans

    @property
    def applied(self) -> bool:
        return any(update.settled.verdict == "applied" for update in self.updates)

    @property
    def halted(self) -> StepReport | None:
        last = self.updates[-1].settled
        return last if last.verdict == "halted" else None

    def rollouts(self) -> Iterator[tuple[SampleRef, Rollout]]:
        for group in self.collected.groups:
            for index, rollout in enumerate(group.rollouts):
                yield SampleRef(group.id, index, 0), rollout
