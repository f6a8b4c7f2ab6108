"""From a step's rewards to the advantage of each rollout."""

from collections.abc import Sequence

import numpy as np
import torch

from surefoot.algos import group_advantages
from surefoot.config.schema import AlgoConfig
from surefoot.data.samples import group_rewards
from surefoot.loop.seeds import derive_seed
from surefoot.types.rollout import Group

Advantages = dict[tuple[int, int], float]  # (group, index of the rollout in it) -> advantage; 0 for an invalid one


class AdvantageEstimator:
    """With a `shuffle_seed` this is the control: valid rewards trade places within the batch before they are used."""

    def __init__(self, config: AlgoConfig, shuffle_seed: int | None) -> None:
        self.config, self.shuffle_seed = config, shuffle_seed

    def __call__(self, groups: Sequence[Group], step: int) -> Advantages:
        rewards_N, group_ids_N, valid_N, keys = group_rewards(groups)
        if self.shuffle_seed is not None:
            random = np.random.default_rng(derive_seed(self.shuffle_seed, step))
            rewards_N[valid_N] = random.permutation(rewards_N[valid_N])
        values_N = group_advantages(
            torch.from_numpy(rewards_N),
            torch.from_numpy(group_ids_N),
            estimator=self.config.estimator,
            valid=torch.from_numpy(valid_N),
            std_eps=self.config.std_eps,
        )
        return dict(zip(keys, values_N.tolist(), strict=True))
