"""How an updated policy reaches the in-process sampler: not at all where parameters are shared, else as a copy."""

from typing import Protocol

import torch

from surefoot.engines.inprocess.engine import InProcessEngine
from surefoot.nn.model import CausalLM
from surefoot.types.protocols import Engine
from surefoot.weights.plan import gathered, manifest


class Publisher(Protocol):
    def publish(self, version: int) -> None:
        """The sampler continues with the trainer's current weights as `version`, which must be a new one."""


class SharedWeights:
    """One rank: the sampler reads the trainer's parameters in place; 0 bytes move."""

    def __init__(self, engine: InProcessEngine) -> None:
        self.engine = engine

    def publish(self, version: int) -> None:
        self.engine.advance(version)


class CopiedWeights:
    """Several ranks: each sampler's whole copy is refreshed and proved tensor by tensor."""

    def __init__(self, policy: CausalLM, engine: Engine, dtype: torch.dtype) -> None:
        self.policy, self.engine, self.dtype = policy, engine, dtype

    def publish(self, version: int) -> None:
        sent = manifest(self.policy, self.dtype, version)
        self.engine.set_weights(sent, gathered(self.policy, self.dtype))
