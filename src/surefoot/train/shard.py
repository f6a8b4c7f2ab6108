"""The ranks of a run and how a model is spread over them.

One rank: nothing is sharded, parameters stay at fixed addresses and the sampler reads them in place.
More: FSDP2 over all ranks; parameters are DTensors in fp32 (the masters) and compute in the wanted precision.
"""

import datetime
import os
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from surefoot.nn.model import CausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}


@dataclass(frozen=True, slots=True)
class World:
    rank: int
    size: int
    device: torch.device

    @property
    def leads(self) -> bool:
        """True on the one rank that writes files and speaks to the user."""
        return self.rank == 0

    def gather(self, value: Any) -> list[Any]:
        """One object from every rank, in rank order, on every rank."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def sum(self, vector: Tensor) -> Tensor:
        """Element-wise sum over the ranks, in place."""
        if self.size > 1:
            dist.all_reduce(vector)
        return vector


def join_world(device: str, timeout_s: float) -> World:
    """This process's place, from torchrun's environment where there is one. A collective waits `timeout_s` at most."""
    size, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    on_cuda = device == "cuda" or (device == "auto" and torch.cuda.is_available())
    local = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if on_cuda else torch.device("cpu")
    if on_cuda:
        torch.cuda.set_device(local)
    if size > 1 and not dist.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if on_cuda else "gloo"
        dist.init_process_group(backend, timeout=datetime.timedelta(seconds=timeout_s))
    return World(rank, size, local)


def shard(model: CausalLM, world: World, compute: torch.dtype) -> CausalLM:
    """Spread `model` over the ranks: each decoder layer is a unit, the rest (embedding, norm, head) is the root.

    Gradients are summed over ranks, not averaged: token weights already hold the batch's denominator.
    """
    if world.size == 1:
        return model
    mesh = init_device_mesh(world.device.type, (world.size,))
    reduce = torch.promote_types(compute, torch.float32)
    policy = MixedPrecisionPolicy(param_dtype=compute, reduce_dtype=reduce, cast_forward_inputs=False)
    for layer in _decoder_layers(model):
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=False)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)  # gloo has no other
    return model


def _decoder_layers(model: CausalLM) -> list[torch.nn.Module]:
    from transformers.modeling_layers import GradientCheckpointingLayer

    return [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]


def reshard(model: CausalLM) -> None:
    """Back to shards, after forward passes that no backward follows."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()


def local(tensor: Tensor) -> Tensor:
    """This rank's part of a tensor, sharing its storage."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """The tensor gathered from all ranks; every rank must call this in the same order."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def leave_world() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
