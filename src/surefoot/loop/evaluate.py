"""Held-out evaluation: its own prompts and seeds, so training does not notice it.

The seeds do not change from one evaluation to the next: what differs between two of them is the policy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from surefoot.config.schema import EvalSetConfig
from surefoot.loop.account import rollout_figures
from surefoot.loop.collect import Collector
from surefoot.loop.seeds import derive_seed
from surefoot.types.rollout import Draw, Prompt


@dataclass(frozen=True, slots=True, eq=False)
class EvalSet:
    name: str
    draws: tuple[Draw, ...]
    collector: Collector

    async def evaluate(self, on_group: Callable[[], None]) -> dict[str, float]:
        """Means as in training; `dropped` prompts, which were too long for one, have no part in them."""
        collected = await self.collector.collect(self.draws, on_group)
        made = rollout_figures(collected.groups, self.collector.rubric.full_marks)
        figures = {
            "reward": made.reward_mean,
            "accuracy": made.accuracy,
            "rollouts": float(made.rollouts),
            "invalid": float(made.invalid),
            "truncated": made.truncated,
            "dropped": float(len(collected.dropped)),
        }
        return {f"eval/{self.name}/{key}": value for key, value in figures.items()}


def build_eval_set(config: EvalSetConfig, prompts: Sequence[Prompt], training: Collector) -> EvalSet:
    """Shares the training collector's parts, with sampling and seeds of its own."""
    draws = tuple(Draw(number=row, epoch=0, row=row, prompt=prompt) for row, prompt in enumerate(prompts))
    collector = replace(
        training,
        sampling=replace(training.sampling, temperature=config.temperature),
        group_size=config.samples,
        seed=derive_seed(training.seed, "eval", config.name),
    )
    return EvalSet(config.name, draws, collector)
