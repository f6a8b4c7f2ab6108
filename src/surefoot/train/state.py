"""A trainer's state as a checkpoint holds it: tensors by parameter name, and a few numbers."""

from typing import Any

import torch

from surefoot.nn.digest import combined_digest, tensor_digest
from surefoot.train.shard import whole
from surefoot.train.step import Trainer


def tensor_state(trainer: Trainer) -> dict[str, Any]:
    """Masters, optimizer moments and a refreshed reference, as live tensors: saving reads them, loading fills them."""
    masters = trainer.masters
    moments = {
        name: dict(trainer.optimizer.state[master]) for name, master in zip(masters.names, masters.tensors, strict=True)
    }
    state: dict[str, Any] = {
        "policy": {name: master.detach() for name, master in zip(masters.names, masters.tensors, strict=True)},
        "optimizer": moments,
    }
    if trainer.roles.reference is not None:
        state["reference"] = {name: param.detach() for name, param in trainer.roles.reference.parameters()}
    return state


def number_state(trainer: Trainer) -> dict[str, Any]:
    return {"updates": trainer.updates, "scaler": trainer.scaler.state_dict()}


def restore(trainer: Trainer, numbers: dict[str, Any]) -> None:
    """After the tensors of `tensor_state` were filled: the numbers, and the parameters behind the masters."""
    trainer.updates = numbers["updates"]
    trainer.scaler.load_state_dict(numbers["scaler"])
    trainer.masters.publish()


@torch.no_grad()
def weights_digest(trainer: Trainer) -> str:
    """Digest of the whole masters; every rank takes part and gets the same."""
    pairs = zip(trainer.masters.names, trainer.masters.tensors, strict=True)
    return combined_digest([(name, tensor_digest(whole(master.detach()))) for name, master in pairs])
