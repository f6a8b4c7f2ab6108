"""What a weight transfer sends: the trainer's parameters gathered whole, each under its name, once if tied."""

from collections.abc import Iterator

import torch
from torch import Tensor

from surefoot.nn.digest import combined_digest, tensor_digest
from surefoot.nn.model import CausalLM
from surefoot.train.shard import whole
from surefoot.types.train import ParamSpec, WeightManifest


@torch.no_grad()
def gathered(policy: CausalLM, dtype: torch.dtype) -> Iterator[tuple[str, Tensor]]:
    """Every parameter whole and in the sampler's dtype, one at a time; all ranks must consume it together."""
    for name, param in policy.named_parameters():
        yield name, whole(param.detach()).to(dtype)


def manifest(policy: CausalLM, dtype: torch.dtype, version: int) -> WeightManifest:
    """Names, shapes, dtypes and digests, computed from the trainer's side of the transfer."""
    params = tuple(
        ParamSpec(name, tuple(tensor.shape), str(tensor.dtype), tensor_digest(tensor))
        for name, tensor in gathered(policy, dtype)
    )
    return WeightManifest(version, params, combined_digest((p.name, p.digest) for p in params))
