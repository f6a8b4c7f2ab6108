"""Run by torchrun: gradients of saved rollouts on as many ranks as there are, written to a file by rank 0.

Arguments: model folder, rollouts, output, precision.
"""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import torch

from surefoot.config.schema import AlgoConfig, OptimConfig, PrecisionConfig, TrainConfig
from surefoot.data.samples import samples_from_groups
from surefoot.observe.rollouts import read_rollouts
from surefoot.train.prepare import build_batch, score
from surefoot.train.roles import Roles, load_frozen, load_policy
from surefoot.train.shard import join_world, leave_world, whole
from surefoot.train.step import Trainer, TrainerConfig
from surefoot.types.rollout import Sample


def silenced(sample: Sample) -> Sample:
    return dataclasses.replace(sample, loss_mask_L=np.zeros_like(sample.loss_mask_L))


def mixes(samples: list[Sample]) -> dict[str, list[Sample]]:
    longest = max(samples, key=lambda s: len(s.token_ids_L))
    others = [silenced(s) for s in samples if s is not longest]
    return {
        "ragged": samples,
        "one sample": samples[:1],  # the other rank has only a filler
        "one trains": [longest, *others],  # the other rank has tokens, none of which trains
        "nothing trains": [silenced(s) for s in samples],
    }


def main(folder: str, rollouts: str, output: str, compute: str) -> None:
    world = join_world("cpu", 60)
    precision = PrecisionConfig(compute=compute)
    roles = Roles(load_policy(folder, world, precision), load_frozen("reference", folder, world, precision))
    config = TrainerConfig(
        train=TrainConfig(max_tokens=48, updates_per_rollout=2),  # 2: the old log-probs are the trainer's
        algo=AlgoConfig(kl_coef=0.1, clip_high=0.28),
        optim=OptimConfig(lr=1e-2),
        precision=precision,
        temperature=1.0,
        constant_length=0,
        total_updates=0,
    )
    trainer = Trainer(roles, config)
    groups = read_rollouts(Path(rollouts))
    advantages = {(g.id, i): 0.3 * g.id - 0.7 + i for g in groups for i in range(len(g.rollouts))}
    samples = samples_from_groups(groups, advantages)
    results = {}
    for name, mix in mixes(samples).items():
        batch = build_batch(mix, score(mix, roles, config, 0), config, trainer.roles.policy)
        _, agreed = trainer.gather_evidence(batch)
        gradient = torch.cat([whole(m.grad).double().flatten() for m in trainer.masters.tensors])
        trainer.masters.clear_gradients()
        results[name] = {
            "loss": agreed.sums["loss"],
            "size": agreed.sums["abs_term_sum"],
            "norm": agreed.norm_sq**0.5,
            "grad": gradient,
        }
    batch = build_batch(samples, score(samples, roles, config, 0), config, trainer.roles.policy)
    report = trainer.attempt(batch, step=1, attempt=0, version=0)
    results["after"] = {"grad": torch.cat([whole(m.detach()).double().flatten() for m in trainer.masters.tensors])}
    results["verdict"] = report.verdict
    if world.leads:
        torch.save(results, output)
    leave_world()


if __name__ == "__main__":
    main(*sys.argv[1:])
