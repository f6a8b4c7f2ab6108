"""A digest that two holders of the same weights agree on, tensor by tensor."""

import hashlib
from collections.abc import Iterable

import torch
from torch import Tensor


def tensor_digest(tensor: Tensor) -> str:
    """Hex digest of shape, dtype and bytes; equal for equal bits wherever the tensor lives."""
    host = tensor.detach().contiguous().cpu()
    hasher = hashlib.blake2b(f"{tuple(host.shape)} {host.dtype}".encode(), digest_size=16)
    hasher.update(host.reshape(-1).view(torch.uint8).numpy().data)
    return hasher.hexdigest()


def combined_digest(named: Iterable[tuple[str, str]]) -> str:
    """One digest over (name, digest) pairs, whatever order they come in."""
    hasher = hashlib.sha256()
    for name, digest in sorted(named):
        hasher.update(f"{name} {digest}\n".encode())
    return hasher.hexdigest()
