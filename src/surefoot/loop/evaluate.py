"""Held-out evaluation: its own prompts and seeds, so training does not notice it.

The seeds do not change from one evaluation to the next: what differs between two of them is the policy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from surefoot.config.schema import EvalSetConfig
from surefoot.loop.collect import Collector
from surefoot.loop.seeds import derive_seed
from surefoot.types.rollout import Draw, Prompt


@dataclass(frozen=True, slots=True, eq=False)
class EvalSet:
    name: str
    draws: tuple[Draw, ...]
    collector: Collector

    async def evaluate(self, on_group: Callable[[], None]) -> dict[str, float]:
        """`reward`, its mean over valid rollouts; `accuracy`, the share of all rollouts with full marks (>= 1)."""
        collected = await self.collector.collect(self.draws, on_group)
        rollouts = [rollout for group in collected.groups for rollout in group.rollouts]
        rewards = [rollout.reward for rollout in rollouts if not rollout.invalid]
        total = len(self.draws) * self.collector.group_size
        figures = {
            "reward": sum(rewards) / len(rewards) if rewards else 0.0,
            "accuracy": sum(reward >= 1.0 for reward in rewards) / total,
            "rollouts": float(total),
            "invalid": float(total - len(rewards)),
            "truncated": sum(rollout.stop == "length" for rollout in rollouts) / total,
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
