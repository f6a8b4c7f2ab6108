"""Rollouts of random tokens in a given mix of lengths: what a step costs, without sampling. Its numbers mean nothing.

Letters: L prompt tokens, C completion tokens.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from surefoot.config.schema import LengthsConfig
from surefoot.loop.collect import Collected
from surefoot.loop.seeds import derive_seed
from surefoot.types.errors import UsageError
from surefoot.types.rollout import Draw, Generation, Group, IntArray, Message, Prompt, Rollout, Turn


class FakeRollouts:
    """A source of prompts and a collector in one, endless and the same for the same seed."""

    def __init__(
        self,
        lengths: Sequence[LengthsConfig],
        *,
        group_size: int,
        vocabulary: int,
        version: Callable[[], int],  # the tokens claim to come from the policy of this version
        seed: int,
    ) -> None:
        self.lengths, self.group_size, self.vocabulary = tuple(lengths), group_size, vocabulary
        self.version, self.seed = version, seed
        self._cursor = 0

    @property
    def identity(self) -> str:
        return f"fake {self.seed} {self.group_size} {self.vocabulary} {self.lengths}"

    @property
    def cursor(self) -> int:
        return self._cursor

    @property
    def total(self) -> None:
        return None

    def seek(self, cursor: int) -> None:
        if cursor < 0:
            raise UsageError(f"cursor = {cursor} is negative")
        self._cursor = cursor

    def draw(self, count: int) -> list[Draw]:
        numbers = range(self._cursor, self._cursor + count)
        self._cursor += count
        return [Draw(number=number, epoch=0, row=number, prompt=_prompt(number)) for number in numbers]

    def mine(self, draws: Sequence[Draw]) -> Sequence[Draw]:
        """Every rank makes all of them."""
        return draws

    async def collect(self, draws: Sequence[Draw], on_group: Callable[[], None]) -> Collected:
        groups = []
        for draw in draws:
            groups.append(self._group(draw))
            on_group()
        return Collected(tuple(groups), {})

    def _group(self, draw: Draw) -> Group:
        random = np.random.default_rng(derive_seed(self.seed, draw.number))
        weights = np.array([lengths.weight for lengths in self.lengths])
        chosen = random.choice(len(self.lengths), size=self.group_size, p=weights / weights.sum())
        prompt_ids_L = self._tokens(random, self.lengths[chosen[0]].prompt)
        completions = [self.lengths[index].completion for index in chosen]
        rollouts = tuple(self._rollout(random, prompt_ids_L, length, index) for index, length in enumerate(completions))
        return Group(id=draw.number, prompt=draw.prompt, rollouts=rollouts)

    def _rollout(self, random: np.random.Generator, prompt_ids_L: IntArray, length: int, index: int) -> Rollout:
        """Rewards alternate, so that no group is without a signal."""
        generation = Generation(
            token_ids_C=self._tokens(random, length),
            logprobs_C=np.full(length, -math.log(self.vocabulary), np.float32),
            versions_C=np.full(length, self.version(), np.int32),
            stop="length",
        )
        reward = float(index % 2)
        turn = Turn(prompt_ids_L=prompt_ids_L, generation=generation, replies=(), reward=reward)
        return Rollout(
            turns=(turn,),
            stop="length",
            response="",
            seed=index,
            reward=reward,
            reward_parts={},
            answers={},
            invalid="",
        )

    def _tokens(self, random: np.random.Generator, length: int) -> IntArray:
        return random.integers(0, self.vocabulary, length).astype(np.int32)


def _prompt(number: int) -> Prompt:
    payload: dict[str, object] = {"label": None, "metadata": {}}
    return Prompt(id=f"fake:{number}", env="fake", messages=(Message("user", "random tokens"),), payload=payload)
