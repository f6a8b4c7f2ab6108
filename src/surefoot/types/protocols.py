"""The seams: what an episode, a reward and a rollout engine look like to those who use them."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from surefoot.types.rollout import Generation, IntArray, Message, Request
from surefoot.types.train import WeightManifest


class Generate(Protocol):
    """All that an episode needs to sample."""

    async def __call__(self, request: Request) -> Generation: ...


class Codec(Protocol):
    """Text to token ids and back. Sampled ids are never decoded and encoded again."""

    def encode(self, messages: Sequence[Message]) -> IntArray: ...

    def decode(self, token_ids: Sequence[int] | np.ndarray) -> str: ...


class Engine(Protocol):
    """A sampler. Tokens in, tokens out; many requests at once."""

    @property
    def version(self) -> int: ...

    async def generate(self, request: Request) -> Generation: ...

    def set_weights(self, manifest: WeightManifest, tensors: Iterable[tuple[str, Any]]) -> None: ...

    def close(self) -> None: ...
