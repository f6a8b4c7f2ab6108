"""The same update as a trainer's attempt, written plainly: no evidence, no decision, no report.

Gradients are clipped on the device, as `torch.nn.utils.clip_grad_norm_` does it: the host never waits.
"""

from typing import Any

import torch
from torch import Tensor

from surefoot.bench.access import loss_scale, scaled
from surefoot.train.clip import grad_norm_sq
from surefoot.train.roles import packed_inputs
from surefoot.train.step import Trainer
from surefoot.types.train import Batch, Microbatch


def plain_step(trainer: Trainer, batch: Batch) -> None:
    trainer.masters.clear_gradients()
    plain_backward(trainer, batch)
    gradients = trainer.masters.gradients()
    norm = grad_norm_sq(gradients).sqrt() / loss_scale(trainer)
    factor = (trainer.config.train.max_grad_norm / norm).clamp(max=1.0) / loss_scale(trainer)
    torch._foreach_mul_(gradients, factor.float())
    trainer.optimizer.step()
    trainer.masters.publish()
    trainer.masters.clear_gradients()


def plain_backward(trainer: Trainer, batch: Batch) -> None:
    for microbatch in batch.microbatches_RM[trainer.roles.policy.world.rank]:
        scaled(trainer, plain_loss(trainer, microbatch)).backward()  # type: ignore[no-untyped-call]


def plain_loss(trainer: Trainer, microbatch: Microbatch) -> Tensor:
    """The clipped policy loss under truncated importance sampling, nothing else (see algos/loss.py)."""
    algo, device = trainer.config.algo, trainer.roles.policy.world.device

    def rows(array_T: Any) -> Tensor:
        return torch.from_numpy(array_T[microbatch.loss_mask_T]).to(device, non_blocking=True)

    inputs = packed_inputs(microbatch, device)
    logprobs_N, _ = trainer.roles.policy.model(inputs, trainer.config.temperature, trainer.config.train.logprob_chunk)
    old_N, advantages_N = rows(microbatch.old_logprobs_T), rows(microbatch.advantages_T)
    correction_N = (old_N - rows(microbatch.behavior_logprobs_T)).exp().clamp(max=algo.tis_cap)
    ratio_N = (logprobs_N - old_N).exp()
    clipped_N = ratio_N.clamp(1 - algo.clip_low, 1 + algo.clip_high)
    terms_N = torch.maximum(-advantages_N * ratio_N, -advantages_N * clipped_N)
    return (rows(microbatch.token_weights_T) * correction_N * terms_N).sum()
