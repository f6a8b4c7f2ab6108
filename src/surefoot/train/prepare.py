"""From samples to a batch: what other models say of their tokens, the weight of each token, the packing.

Everything here is decided before the first backward and is the same on every rank.
Letters: L tokens of a sample, R ranks, M micro-batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from surefoot.algos import token_weights
from surefoot.train.pack import pack, unpack
from surefoot.train.roles import Role, Roles
from surefoot.train.step import TrainerConfig
from surefoot.types.rollout import FloatArray, Sample, SampleRef
from surefoot.types.train import Batch, OldSource


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Log-probs [L] of each sample's tokens, taken once, before a rollout batch's first update."""

    old: dict[SampleRef, FloatArray]
    reference: dict[SampleRef, FloatArray]  # empty where no reference is in use
    old_source: OldSource


def old_source(config: TrainerConfig, samples: Sequence[Sample], version: int) -> OldSource:
    """The sampler's own log-probs serve as `old` only where they are the trainer's: one update per rollout batch,
    full precision on both sides, and every token sampled by the current version."""
    once = config.train.updates_per_rollout * config.train.epochs == 1
    exact = config.precision.compute in ("fp32", "fp64")
    current = all((s.versions_L[s.loss_mask_L] == version).all() for s in samples)
    return "sampler" if once and exact and current else "trainer"


def score(samples: Sequence[Sample], roles: Roles, config: TrainerConfig, version: int) -> Scores:
    source = old_source(config, samples, version)
    old = {s.ref: s.behavior_logprobs_L for s in samples}
    if source == "trainer":
        old = _score_role(samples, roles.policy, config)
    reference = {} if roles.reference is None else _score_role(samples, roles.reference, config)
    return Scores(old, reference, source)


def _score_role(samples: Sequence[Sample], role: Role, config: TrainerConfig) -> dict[SampleRef, FloatArray]:
    zeros = [np.zeros(len(s.token_ids_L), np.float32) for s in samples]
    batch = pack(
        samples,
        ranks=role.world.size,
        max_tokens=config.train.max_tokens,
        token_weights=zeros,
        old_logprobs=zeros,
        reference_logprobs=None,
        old_source="trainer",
        linear_cost=role.costs[0],
        quadratic_cost=role.costs[1],
    )
    mine = batch.microbatches_RM[role.world.rank]
    scored = unpack(mine, role.score(mine, config.temperature, config.train.logprob_chunk))
    merged = {index: values for part in role.world.gather(scored) for index, values in part.items()}
    return {s.ref: np.concatenate([[0.0], merged[i]]).astype(merged[i].dtype) for i, s in enumerate(samples)}


def build_batch(samples: Sequence[Sample], scores: Scores, config: TrainerConfig, policy: Role) -> Batch:
    """One update's batch. Token weights are those of these samples together, whatever rank trains them."""
    return pack(
        samples,
        ranks=policy.world.size,
        max_tokens=config.train.max_tokens,
        token_weights=weights_of(samples, config.algo.aggregation, config.constant_length),
        old_logprobs=[scores.old[s.ref] for s in samples],
        reference_logprobs=[scores.reference[s.ref] for s in samples] if scores.reference else None,
        old_source=scores.old_source,
        linear_cost=policy.costs[0],
        quadratic_cost=policy.costs[1],
    )


def weights_of(samples: Sequence[Sample], aggregation: str, constant_length: int) -> list[FloatArray]:
    """Token weights [L] of each sample."""
    if not samples:
        return []
    lengths = [len(s.token_ids_L) for s in samples]
    rollouts = {key: i for i, key in enumerate(dict.fromkeys((s.ref.group, s.ref.rollout) for s in samples))}
    rollout_ids = [rollouts[s.ref.group, s.ref.rollout] for s in samples]
    weights_T = token_weights(
        torch.from_numpy(np.concatenate([s.loss_mask_L for s in samples])),
        torch.from_numpy(np.repeat(np.arange(len(samples)), lengths)),
        torch.from_numpy(np.repeat(rollout_ids, lengths)),
        aggregation=aggregation,
        constant_length=constant_length,
    )
    return np.split(weights_T.numpy().astype(np.float32), np.cumsum(lengths)[:-1])
