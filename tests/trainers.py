"""Trainers on one rank, and what tests read off them."""

import copy
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from surefoot.config.schema import AlgoConfig, OptimConfig, PrecisionConfig, TrainConfig
from surefoot.nn.model import PackedInputs
from surefoot.train.prepare import build_batch, score
from surefoot.train.roles import Role, Roles, load_policy
from surefoot.train.shard import World
from surefoot.train.state import tensor_state
from surefoot.train.step import Trainer, TrainerConfig
from surefoot.types.rollout import Sample, SampleRef
from surefoot.types.train import Batch, StepReport

ONE = World(0, 1, torch.device("cpu"))
TWICE = TrainConfig(max_tokens=64, updates_per_rollout=2)  # `old` is the trainer's own in every precision


def load_role(folder: Path, compute: str = "fp32") -> Role:
    """A policy still in the masters' precision: `trainer_of` narrows its own copy."""
    return load_policy(str(folder), ONE, PrecisionConfig(compute=compute))


def twin(role: Role) -> Role:
    """The same weights in memory of their own, without the hooks of a trainer."""
    return dataclasses.replace(role, model=copy.deepcopy(role.model))


def config_of(compute: str = "fp32", *, precision: Mapping[str, Any] | None = None, **sections: Any) -> TrainerConfig:
    parts: dict[str, Any] = {
        "train": TWICE,
        "algo": AlgoConfig(),
        "optim": OptimConfig(lr=1e-2),
        "temperature": 0.8,
        "constant_length": 16,
        "total_updates": 0,
        **sections,
    }
    scaler = {"init_scale": 1024.0, "growth_interval": 3, **(precision or {})}
    return TrainerConfig(precision=PrecisionConfig(compute=compute, **scaler), **parts)


def trainer_of(policy: Role, config: TrainerConfig, reference: Role | None = None) -> Trainer:
    """On a copy of the policy's weights, so that one loaded role serves many trainers."""
    return Trainer(Roles(twin(policy), reference), config)


def attempt(trainer: Trainer, batch: Batch) -> StepReport:
    return trainer.attempt(batch, step=1, attempt=0, version=0)


def flat(tensors: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.detach().double().flatten() for tensor in tensors])


def snapshot(trainer: Trainer) -> dict[str, torch.Tensor]:
    """Copies of all that a skipped attempt must leave alone: masters, moments, Adam's step counts, parameters."""
    state = tensor_state(trainer)
    kept = {f"master.{name}": tensor.clone() for name, tensor in state["policy"].items()}
    for name, moments in state["optimizer"].items():
        kept |= {f"{name}.{key}": tensor.clone() for key, tensor in moments.items()}
    return kept | {f"param.{name}": param.detach().clone() for name, param in trainer.roles.policy.parameters()}


def same(before: Mapping[str, torch.Tensor], after: Mapping[str, torch.Tensor]) -> bool:
    """Bit for bit."""
    return before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)


class Weights(nn.Module):
    """A "model" of `count` weights at 0: each token's log-prob is minus their sum, so with advantage 1 and lp = old
    the gradient of every weight is 1."""

    def __init__(self, count: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(count))

    def forward(self, inputs: PackedInputs, temperature: float, chunk: int) -> tuple[torch.Tensor, torch.Tensor]:
        logprobs_N = -self.weight.sum().float().expand(len(inputs.labels_N))
        return logprobs_N, torch.zeros_like(logprobs_N)


def weights_trainer(count: int, compute: str, **sections: Any) -> Trainer:
    role = Role("policy", Weights(count), ONE, (1.0, 0.0))  # type: ignore[arg-type]
    return Trainer(Roles(role, None), config_of(compute, algo=AlgoConfig(correction="none"), **sections))


def one_token() -> Sample:
    """The sample that trains one token with advantage 1."""
    return Sample(
        ref=SampleRef(0, 0, 0),
        token_ids_L=np.array([3, 4], np.int32),
        loss_mask_L=np.array([False, True]),
        behavior_logprobs_L=np.zeros(2, np.float32),
        versions_L=np.array([-1, 0], np.int32),
        advantages_L=np.array([0.0, 1.0], np.float32),
    )


def one_token_batch(trainer: Trainer) -> Batch:
    samples = [one_token()]
    return build_batch(samples, score(samples, trainer.roles, trainer.config, 0), trainer.config, trainer.roles.policy)
