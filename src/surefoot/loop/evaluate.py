"""Held-out evaluation: its own prompts, sampling and seeds, so training does not notice it.

The seeds do not change from one evaluation to the next: what differs between two of them is the policy.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from surefoot.algos.estimates import Interval, mean_interval, pass_at_k, reported_k, share_interval
from surefoot.config.schema import EvalSetConfig
from surefoot.envs.rubric import Rubric
from surefoot.loop.account import has_full_marks, rollout_figures
from surefoot.loop.collect import Collected, Collector
from surefoot.loop.seeds import derive_seed
from surefoot.types.rollout import Draw, Group, Prompt


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """What one evaluation of one set came to. `passes`: k -> pass@k; pass@1 is the accuracy, avg@n of n answers."""

    name: str
    collected: Collected
    passes: Mapping[int, Interval]
    reward: Interval
    figures: Mapping[str, float]

    @property
    def accuracy(self) -> Interval:
        return self.passes[1]

    def intervals(self) -> dict[str, Interval]:
        """Every mean that is reported, by its name."""
        passes = {f"pass@{k}": share for k, share in self.passes.items() if k > 1}
        return {"accuracy": self.accuracy, **passes, "reward": self.reward}

    def line(self) -> str:
        """For people: every share with its interval."""
        shares = {name: interval for name, interval in self.intervals().items() if name != "reward"}
        told = [f"{name} {share.mean:.3f} [{share.low:.3f}, {share.high:.3f}]" for name, share in shares.items()]
        return f"eval/{self.name}/{', '.join(told)}"

    def metrics(self) -> dict[str, float]:
        """Under eval/<name>/: every mean with the bounds of its 95% interval, and the counts."""
        found = dict(self.figures)
        for name, interval in self.intervals().items():
            found |= {name: interval.mean, f"{name}_low": interval.low, f"{name}_high": interval.high}
        return {f"eval/{self.name}/{name}": value for name, value in found.items()}


@dataclass(frozen=True, slots=True, eq=False)
class EvalSet:
    name: str
    draws: tuple[Draw, ...]
    collector: Collector

    async def evaluate(self, on_group: Callable[[], None]) -> Evaluation:
        """An invalid answer is a wrong one; `dropped` prompts, which were too long for any, have no part in it."""
        collected = await self.collector.collect(self.draws, on_group)
        return summarize(self.name, collected, self.collector.rubric.full_marks, self.collector.group_size)


def summarize(name: str, collected: Collected, full_marks: float, answers: int) -> Evaluation:
    """`answers`: rollouts a prompt."""
    groups = collected.groups
    right_P = [sum(has_full_marks(rollout, full_marks) for rollout in group.rollouts) for group in groups]
    passes = {
        k: share_interval([pass_at_k(answers, right, k) for right in right_P], answers if k == 1 else 1)
        for k in reported_k(answers)
    }
    made = rollout_figures(groups, full_marks)
    figures = {
        "prompts": float(len(groups)),
        "rollouts": float(made.rollouts),
        "invalid": float(made.invalid),
        "truncated": made.truncated,
        "length": made.length,
        "dropped": float(len(collected.dropped)),
    }
    return Evaluation(name, collected, passes, mean_interval(_prompt_rewards(groups)), figures)


def _prompt_rewards(groups: Sequence[Group]) -> list[float]:
    """Mean reward of each prompt's valid answers; a prompt without one is left out, and counted among `invalid`."""
    valid = [[rollout.reward for rollout in group.rollouts if not rollout.invalid] for group in groups]
    return [sum(rewards) / len(rewards) for rewards in valid if rewards]


def build_eval_set(
    config: EvalSetConfig, prompts: Sequence[Prompt], training: Collector, *, rubric: Rubric, max_prompt_tokens: int
) -> EvalSet:
    """Shares the training collector's sampler, with prompts, rewards, sampling and seeds of its own."""
    draws = tuple(Draw(number=row, epoch=0, row=row, prompt=prompt) for row, prompt in enumerate(prompts))
    sampling = replace(
        training.sampling,
        temperature=config.temperature,
        max_new_tokens=config.max_new_tokens or training.sampling.max_new_tokens,
        stop=tuple(config.stop) or training.sampling.stop,
    )
    collector = replace(
        training,
        rubric=rubric,
        sampling=sampling,
        group_size=config.samples,
        max_prompt_tokens=max_prompt_tokens,
        seed=derive_seed(training.seed, "eval", config.name),
    )
    return EvalSet(config.name, draws, collector)
