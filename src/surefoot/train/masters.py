"""What the optimizer updates: the parameters themselves, or fp32 masters behind narrower ones.

fp32, fp64 and every sharded run: the model's own (FSDP2 keeps them in fp32 and computes in less).
bf16 and fp16 on one rank: an fp32 copy of each parameter. Gradients move into the masters as soon as a parameter has
its own, so micro-batches accumulate in fp32; after an update the masters are rounded into the parameters in place,
whose addresses the sampler relies on.
"""

import math

import torch
from torch import Tensor, nn

from surefoot.train.roles import Role
from surefoot.train.shard import local


class Masters:
    def __init__(self, policy: Role, compute: str) -> None:
        self.names = [name for name, _ in policy.parameters()]
        self.params = [param for _, param in policy.parameters()]
        self.separate = policy.is_narrowed(compute)
        self.tensors: list[nn.Parameter] = self.params
        if self.separate:
            self.tensors = [nn.Parameter(param.detach().clone()) for param in self.params]
            policy.narrow(compute)
            for param, master in zip(self.params, self.tensors, strict=True):
                param.register_post_accumulate_grad_hook(lambda p, m=master: _move_grad(p, m))

    def gradients(self) -> list[Tensor]:
        """This rank's part of every gradient there is, to be read or scaled in place."""
        return [local(master.grad) for master in self.tensors if master.grad is not None]

    @torch.no_grad()
    def nonfinite(self) -> Tensor:
        """[P] of bools, one a name: whether this rank's part of the parameter holds inf or NaN.

        The parameters that compute are asked: masters are rounded into them after every update, so a ruined one shows.
        """
        largest = torch._foreach_norm([_part(param) for param in self.params], math.inf)  # keeps NaN
        return ~torch.stack(largest).isfinite()

    def clear_gradients(self) -> None:
        for master in self.tensors:
            master.grad = None

    @torch.no_grad()
    def publish(self) -> None:
        """Round the masters into the parameters that compute."""
        if self.separate:
            for param, master in zip(self.params, self.tensors, strict=True):
                param.copy_(master)


def _move_grad(param: Tensor, master: Tensor) -> None:
    if param.grad is None:
        return
    if master.grad is None:
        master.grad = param.grad.to(master.dtype)
    else:
        master.grad += param.grad
    param.grad = None


def _part(tensor: Tensor) -> Tensor:
    """This rank's part, never empty: a rank may hold nothing of a short parameter."""
    mine = local(tensor)
    return mine if mine.numel() else mine.new_zeros(1)
