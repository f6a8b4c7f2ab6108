"""Run by torchrun: one shared parameter on two ranks, as c3-dp-imbalance gives it. Prints the gradients of rank 0.

The "model" returns, for each trainable token, its parameter times the token's id: what a token adds to the gradient is
its weight times that number.
"""

import dataclasses

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from surefoot.config.schema import AlgoConfig, OptimConfig, PrecisionConfig, TrainConfig
from surefoot.nn.model import PackedInputs
from surefoot.train.prepare import build_batch, score
from surefoot.train.roles import Role, Roles
from surefoot.train.shard import join_world, leave_world, whole
from surefoot.train.step import Trainer, TrainerConfig
from surefoot.types.rollout import Sample, SampleRef


class OneParameter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2, 1))

    def forward(self, inputs: PackedInputs, temperature: float, chunk: int) -> tuple[Tensor, Tensor]:
        logprobs = -self.weight[0, 0] * inputs.labels_N
        return logprobs, torch.zeros_like(logprobs)


def sample(number: int, gradients: list[int]) -> Sample:
    ids = np.array([0, *gradients], np.int32)
    mask = np.arange(len(ids)) > 0
    zeros = np.zeros(len(ids), np.float32)
    return Sample(
        SampleRef(number, 0, 0), ids, mask, zeros, np.where(mask, 0, -1).astype(np.int32), mask.astype(np.float32)
    )


def main() -> None:
    world = join_world("cpu", 20)
    model = OneParameter()
    if world.size > 1:
        fully_shard(model, mesh=init_device_mesh("cpu", (world.size,)), reshard_after_forward=False)
        model.set_gradient_divide_factor(1.0)
        model.set_force_sum_reduction_for_comms(True)
    config = TrainerConfig(TrainConfig(max_tokens=2), AlgoConfig(), OptimConfig(), PrecisionConfig(), 1.0, 0, 0)
    trainer = Trainer(Roles(Role("policy", model, world, (1.0, 0.0)), None), config)  # type: ignore[arg-type]
    rounds = {
        "both": [sample(0, [1, 1]), sample(1, [1]), sample(2, [5])],
        "two micro-batches, other rank empty": [sample(0, [1, 1]), dataclasses.replace(sample(1, [1]))],
    }
    for name, samples in rounds.items():
        batch = build_batch(samples, score(samples, trainer.roles, config, 0), config, trainer.roles.policy)
        if name != "both" and world.size > 1:  # rank 0 has two micro-batches, rank 1 none of its own
            (first,), (second,) = batch.microbatches_RM
            silent = dataclasses.replace(first, loss_mask_T=np.zeros_like(first.loss_mask_T))
            batch = dataclasses.replace(batch, microbatches_RM=((first, second), (silent, silent)))
        trainer.backward(batch)
        gradient = whole(trainer.masters.tensors[0].grad)[0, 0].item()
        trainer.masters.clear_gradients()
        if world.leads:
            print(f"{name}: {gradient}")
    leave_world()


if __name__ == "__main__":
    main()
