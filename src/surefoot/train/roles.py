"""Model roles: the policy that learns, the reference it may be held to. All load, shard and score the same way."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from surefoot.config.schema import PrecisionConfig
from surefoot.nn.attention import PackedLayout
from surefoot.nn.model import CausalLM, PackedInputs, enable_checkpointing, load_model
from surefoot.train.shard import DTYPES, World, local, reshard, shard
from surefoot.types.rollout import FloatArray
from surefoot.types.train import Microbatch


@dataclass(frozen=True, slots=True, eq=False)
class Role:
    name: str
    model: CausalLM
    world: World
    costs: tuple[float, float]  # FLOPs a token, and a squared token of a sample's length

    def parameters(self) -> list[tuple[str, torch.nn.Parameter]]:
        return list(self.model.named_parameters())

    def is_narrowed(self, compute: str) -> bool:
        """Whether parameters are rounded to the compute precision; FSDP2 keeps its shards wide and rounds on use."""
        return self.world.size == 1 and compute in ("bf16", "fp16")

    def narrow(self, compute: str) -> None:
        """Round the parameters where `is_narrowed`; buffers, RoPE's among them, stay as they are."""
        if self.is_narrowed(compute):
            for _, param in self.parameters():
                param.data = param.data.to(DTYPES[compute])

    @torch.no_grad()
    def score(self, microbatches: Sequence[Microbatch], temperature: float, chunk: int) -> list[FloatArray]:
        """Log-probs [T] of each micro-batch's labels under this role; 0 where the loss mask is off."""
        scored = []
        for microbatch in microbatches:
            logprobs_N, _ = self.model(packed_inputs(microbatch, self.world.device), temperature, chunk)
            chosen_N = logprobs_N.cpu().numpy()
            logprobs_T = np.zeros(len(microbatch.labels_T), chosen_N.dtype)
            logprobs_T[microbatch.loss_mask_T] = chosen_N
            scored.append(logprobs_T)
        reshard(self.model)  # forwards alone leave the root whole, and then its parameters are no shards
        return scored

    @torch.no_grad()
    def copy_from(self, other: "Role") -> None:
        """Take over another role's parameters, which are sharded alike."""
        for (_, mine), (_, theirs) in zip(self.parameters(), other.parameters(), strict=True):
            local(mine).copy_(local(theirs))


@dataclass(frozen=True, slots=True)
class Roles:
    policy: Role
    reference: Role | None


def load_policy(path: str, world: World, precision: PrecisionConfig, *, checkpointing: bool = False) -> Role:
    """In fp32 (fp64 for reference runs), for masters to be made from it before it is narrowed."""
    compute = DTYPES[precision.compute]
    model = load_model(path, world.device, dtype=torch.promote_types(compute, torch.float32))
    if checkpointing:
        enable_checkpointing(model)
    costs = model.token_costs
    return Role("policy", shard(model, world, compute), world, costs)


def load_frozen(name: str, path: str, world: World, precision: PrecisionConfig) -> Role:
    """A role that never trains, in the precision the policy computes in: no masters stand behind it."""
    role = replace(load_policy(path, world, precision), name=name)
    role.narrow(precision.compute)
    return role


def packed_inputs(microbatch: Microbatch, device: torch.device) -> PackedInputs:
    """A host micro-batch on the device. Which rows train is known on the host, so nothing waits for the device."""

    def put(array: np.ndarray) -> Tensor:
        return torch.from_numpy(array.astype(np.int64)).to(device, non_blocking=True)

    rows_N = np.flatnonzero(microbatch.loss_mask_T)
    return PackedInputs(
        input_ids_T=put(microbatch.input_ids_T),
        positions_T=put(microbatch.positions_T),
        layout=PackedLayout(np.diff(microbatch.cu_seqlens_S1).tolist(), device),
        rows_N=put(rows_N),
        labels_N=put(microbatch.labels_T[rows_N]),
    )
