"""Draws in, scored groups out: every rank samples its share, then all ranks hold all groups."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.envs.episode import run_group
from surefoot.envs.rubric import Rubric
from surefoot.loop.seeds import derive_seed
from surefoot.loop.stop import RunStopped, Stop
from surefoot.train.shard import World
from surefoot.types.errors import DataError, EngineError
from surefoot.types.protocols import Codec, Generate
from surefoot.types.rollout import Draw, Group, IntArray, Prompt, Sampling


@dataclass(frozen=True, slots=True, eq=False)
class Collected:
    """`groups` in draw order; `dropped` holds the reason of each draw that was not sampled."""

    groups: tuple[Group, ...]
    dropped: dict[int, str]


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """What one rank made of its draws; `stopped` names the signal that came, `error` what was raised."""

    groups: list[Group]
    dropped: dict[int, str]
    stopped: str
    error: str


@dataclass(frozen=True, slots=True, eq=False)
class Collector:
    codec: Codec
    generate: Generate
    rubric: Rubric
    world: World
    stop: Stop
    sampling: Sampling
    group_size: int
    max_prompt_tokens: int
    seed: int  # with the draw's number and the rollout's index it fixes what is sampled

    def mine(self, draws: Sequence[Draw]) -> Sequence[Draw]:
        """This rank's share."""
        return draws[self.world.rank :: self.world.size]

    async def collect(self, draws: Sequence[Draw], on_group: Callable[[], None]) -> Collected:
        """Sample and score `group_size` rollouts of each draw; `on_group` is called as each of this rank's ends.

        Raises on every rank what any of them met: `RunStopped` where one was asked to stop, `EngineError` where one
        failed; what was sampled is then given up.
        """
        shares = self.world.gather(await self._share(draws, on_group))
        stopped = next((share.stopped for share in shares if share.stopped), "")
        if stopped:
            raise RunStopped(stopped)
        failed = [f"rank {rank}: {share.error}" for rank, share in enumerate(shares) if share.error]
        if failed:
            raise EngineError("; ".join(failed))
        groups = sorted((group for share in shares for group in share.groups), key=lambda group: group.id)
        return Collected(tuple(groups), {number: why for share in shares for number, why in share.dropped.items()})

    async def _share(self, draws: Sequence[Draw], on_group: Callable[[], None]) -> Share:
        mine = self.mine(draws)
        try:
            prompts, dropped = self._encode(mine)
            groups = await self.stop.unless(self._sample(mine, prompts, on_group))
        except Exception as error:
            if self.world.size == 1:
                raise
            return Share([], {}, "", f"{type(error).__name__}: {error}")  # the other ranks wait to hear of it
        return Share(groups or [], dropped, self.stop.reason, "")

    async def _sample(
        self, draws: Sequence[Draw], prompts: Mapping[int, IntArray], on_group: Callable[[], None]
    ) -> list[Group]:
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

        return await asyncio.gather(*(sample(draw) for draw in draws if draw.number in prompts))

    def _encode(self, draws: Sequence[Draw]) -> tuple[dict[int, IntArray], dict[int, str]]:
        """(token ids of each draw's prompt, the reasons of those that cannot be sampled)."""
        prompts, dropped = {}, {}
        for draw in draws:
            ids, problem = self.encode(draw.prompt)
            if problem:
                dropped[draw.number] = problem
            else:
                prompts[draw.number] = ids
        return prompts, dropped

    def encode(self, prompt: Prompt) -> tuple[IntArray, str]:
        """(token ids [L], why the prompt cannot be sampled from, "" where it can)."""
        try:
            ids = self.codec.encode(prompt.messages)
        except DataError as error:
            return np.zeros(0, np.int32), f"prompt: {error}"
        if len(ids) == 0:
            return ids, "prompt_empty: it encodes to no token"
        if len(ids) > self.max_prompt_tokens:
            return ids, f"prompt_too_long: {len(ids)} > {self.max_prompt_tokens} tokens"
        return ids, ""
