"""How far a run has come: what a checkpoint says beside the trainer's state."""

from dataclasses import dataclass

from surefoot.loop.outcome import StepOutcome


@dataclass(slots=True)
class Position:
    step: int = 0  # finished ones
    version: int = 0  # of the published weights
    cursor: int = 0  # prompts drawn

    def advance(self, outcome: StepOutcome, *, cursor: int) -> None:
        self.step = outcome.step
        self.version += outcome.applied
        self.cursor = cursor
