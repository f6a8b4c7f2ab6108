"""From a step's rewards to the advantage of each rollout."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from surefoot.algos import group_advantages
from surefoot.algos.advantage import degenerate_groups
from surefoot.config.schema import AlgoConfig
from surefoot.data.samples import group_rewards
from surefoot.loop.seeds import derive_seed
from surefoot.types.rollout import Group


@dataclass(frozen=True, slots=True)
class Advantages:
    """`by_rollout`: (group, index of the rollout in it) -> advantage, 0 for an invalid one. `degenerate`: how many
    groups teach nothing, by why."""

    by_rollout: dict[tuple[int, int], float]
    degenerate: dict[str, int]


class AdvantageEstimator:
    """With a `shuffle_seed` this is the control: valid rewards trade places within the batch before they are used."""

    def __init__(self, config: AlgoConfig, shuffle_seed: int | None) -> None:
        self.config, self.shuffle_seed = config, shuffle_seed

    def __call__(self, groups: Sequence[Group], step: int) -> Advantages:
        rewards_N, group_ids_N, valid_N, keys = group_rewards(groups)
        if self.shuffle_seed is not None:
            random = np.random.default_rng(derive_seed(self.shuffle_seed, step))
            rewards_N[valid_N] = random.permutation(rewards_N[valid_N])
        rewards, group_ids, valid = (torch.from_numpy(array) for array in (rewards_N, group_ids_N, valid_N))
        values_N = group_advantages(
            rewards, group_ids, estimator=self.config.estimator, valid=valid, std_eps=self.config.std_eps
        )
        by_rollout = dict(zip(keys, values_N.tolist(), strict=True))
        return Advantages(by_rollout, degenerate_groups(rewards, group_ids, valid))
