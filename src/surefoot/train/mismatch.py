"""How far the sampler's log-probs are from the trainer's at the same weights, and where it is worst."""

import math
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from surefoot.algos.mismatch import mismatch_stats
from surefoot.train.shard import World
from surefoot.types.train import Batch

UNKNOWN_GAP = dict.fromkeys(("mismatch_mean", "mismatch_p99", "mismatch_max", "mismatch_kl"), math.nan) | {
    "mismatch_worst_sample": -1.0,
    "mismatch_worst_position": -1.0,
}


def gap_metrics(batch: Batch, logprobs_MN: Sequence[Tensor], world: World) -> dict[str, float]:
    """Mean, p99 and max of |trainer - sampler|, their KL, and the worst token's sample and position.

    `logprobs_MN` are this rank's, taken in the attempt. They are the trainer's at the sampler's weights only before a
    rollout's first update; where `old` was computed by the trainer it is used instead, so that later updates of the
    same rollout do not count as mismatch.
    """
    mine = []
    for microbatch, logprobs_N in zip(batch.microbatches_RM[world.rank], logprobs_MN, strict=True):
        mask_T = microbatch.loss_mask_T
        old_N = microbatch.old_logprobs_T[mask_T]
        trainer_N = logprobs_N.cpu().numpy() if batch.old_source == "sampler" else old_N
        columns = (trainer_N, microbatch.behavior_logprobs_T[mask_T], microbatch.sample_ids_T[mask_T])
        mine.append((*columns, microbatch.positions_T[mask_T] + 1))  # of the token predicted, in its sample
    rows = [part for parts in world.gather(mine) for part in parts]
    trainer, sampler, samples, positions = (np.concatenate(column) for column in zip(*rows, strict=True))
    stats = mismatch_stats(trainer, sampler)
    worst = stats.worst
    return {
        "mismatch_mean": stats.mean,
        "mismatch_p99": stats.p99,
        "mismatch_max": stats.max,
        "mismatch_kl": stats.kl,
        "mismatch_worst_sample": float(samples[worst]) if worst >= 0 else -1.0,
        "mismatch_worst_position": float(positions[worst]) if worst >= 0 else -1.0,
    }
