"""Draws in, scored groups out: every rank samples its share, then all ranks hold all groups."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from surefoot.envs.episode import run_group
from surefoot.envs.rubric import Rubric
from surefoot.loop.seeds import derive_seed
from surefoot.train.shard import World
from surefoot.types.errors import DataError
from surefoot.types.protocols import Codec, Generate
from surefoot.types.rollout import Draw, Group, IntArray, Sampling


@dataclass(frozen=True, slots=True, eq=False)
class Collected:
    """`groups` in draw order; `dropped` holds the reason of each draw that was not sampled."""

    groups: tuple[Group, ...]
    dropped: dict[int, str]


@dataclass(frozen=True, slots=True, eq=False)
class Collector:
    codec: Codec
    generate: Generate
    rubric: Rubric
    world: World
    sampling: Sampling
    group_size: int
    max_prompt_tokens: int
    seed: int  # with the draw's number and the rollout's index it fixes what is sampled

    def mine(self, draws: Sequence[Draw]) -> Sequence[Draw]:
        """This rank's share."""
        return draws[self.world.rank :: self.world.size]

    async def collect(self, draws: Sequence[Draw], on_group: Callable[[], None]) -> Collected:
        """Sample and score `group_size` rollouts of each draw; `on_group` is called as each of this rank's ends."""
        prompts, dropped = self._encode(self.mine(draws))

        async def sample(draw: Draw) -> Group:
            group = await run_group(
                draw,
                prompts[draw.number],
                [derive_seed(self.seed, draw.number, index) for index in range(self.group_size)],
                generate=self.generate,
                codec=self.codec,
                rubric=self.rubric,
                sampling=self.sampling,
            )
            on_group()
            return group

        own = await asyncio.gather(*(sample(draw) for draw in self.mine(draws) if draw.number in prompts))
        shares = self.world.gather((own, dropped))
        groups = sorted((group for share, _ in shares for group in share), key=lambda group: group.id)
        return Collected(tuple(groups), {n: why for _, part in shares for n, why in part.items()})

    def _encode(self, draws: Sequence[Draw]) -> tuple[dict[int, IntArray], dict[int, str]]:
        """(token ids of each draw's prompt, the reasons of those that cannot be sampled)."""
        prompts, dropped = {}, {}
        for draw in draws:
            try:
                ids = self.codec.encode(draw.prompt.messages)
            except DataError as error:
                dropped[draw.number] = f"prompt: {error}"
                continue
            if len(ids) == 0:
                dropped[draw.number] = "prompt_empty: it encodes to no token"
            elif len(ids) <= self.max_prompt_tokens:
                prompts[draw.number] = ids
            else:
                dropped[draw.number] = f"prompt_too_long: {len(ids)} > {self.max_prompt_tokens} tokens"
        return prompts, dropped
