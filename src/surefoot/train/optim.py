"""Optimizers over the masters: a few foreach kernels an update; on several ranks through DTensor."""

import torch

from surefoot.config.schema import OptimConfig
from surefoot.train.masters import Masters


def build_optimizer(config: OptimConfig, masters: Masters) -> torch.optim.Optimizer:
    """AdamW (Loshchilov & Hutter 2019), decoupled weight decay on matrices only."""
    matrices = [p for p in masters.tensors if p.ndim >= 2]
    vectors = [p for p in masters.tensors if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=config.lr,
        betas=(config.beta1, config.beta2),
        eps=config.eps,
        foreach=True,
    )
    for master in masters.tensors:  # state exists from the start, so a checkpoint has one form whenever it is written
        optimizer.state[master] = {
            "step": torch.zeros((), dtype=torch.float32),
            "exp_avg": torch.zeros_like(master.detach()),
            "exp_avg_sq": torch.zeros_like(master.detach()),
        }
    return optimizer


def set_learning_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = lr
