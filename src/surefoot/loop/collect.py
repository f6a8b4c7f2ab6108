"""Draws in, scored groups out: every rank samples its share, then all ranks hold all groups."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from surefoot.envs.episode import run_group
from surefoot.envs.rubric import Rubric
from surefoot.loop.seeds import derive_seed
from surefoot.train.shard import World
from surefoot.types.protocols import Codec, Generate
from surefoot.types.rollout import Draw, Group, Sampling


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
        prompts = {draw.number: self.codec.encode(draw.prompt.messages) for draw in self.mine(draws)}
        limit = self.max_prompt_tokens
        dropped = {n: f"prompt_too_long: {len(ids)} > {limit} tokens" for n, ids in prompts.items() if len(ids) > limit}

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

        own = await asyncio.gather(*(sample(draw) for draw in self.mine(draws) if draw.number not in dropped))
        shares = self.world.gather((own, dropped))
        groups = sorted((group for share, _ in shares for group in share), key=lambda group: group.id)
        return Collected(tuple(groups), {n: why for _, part in shares for n, why in part.items()})
