"""Group-relative advantages.

N = rollouts, in any order; P = distinct groups. Statistics are per group by id: groups may be ragged.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.algos.arguments import check_bool, check_same_length, look_up, number_ids
from surefoot.types.errors import ConfigError


@dataclass(frozen=True, slots=True, eq=False)
class GroupStats:
    """What an estimator sees of each rollout, float64, over the valid rewards of its group.

    `deviation_N` is R - mean (0 where invalid), `std_N` the sample standard deviation (ddof 1), `count_N` how many.
    """

    deviation_N: Tensor
    std_N: Tensor
    count_N: Tensor


Estimator = Callable[[GroupStats, float], Tensor]


def _grpo(stats: GroupStats, std_eps: float) -> Tensor:
    return stats.deviation_N / (stats.std_N + std_eps)


def _dr_grpo(stats: GroupStats, std_eps: float) -> Tensor:
    return stats.deviation_N


def _rloo(stats: GroupStats, std_eps: float) -> Tensor:
    # R - (sum - R) / (n - 1) = (R - mean) n / (n - 1), without the cancellation of sum - R.
    return stats.deviation_N * stats.count_N / (stats.count_N - 1).clamp(min=1)


ESTIMATORS: dict[str, Estimator] = {"grpo": _grpo, "dr_grpo": _dr_grpo, "rloo": _rloo}


@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    """Which group each rollout is in, and each group's valid rewards: how many, least, greatest, all finite."""

    index_N: Tensor
    count_P: Tensor
    low_P: Tensor
    high_P: Tensor
    finite_P: Tensor

    def total_P(self, values_N: Tensor) -> Tensor:
        return torch.zeros_like(self.count_P).index_add(0, self.index_N, values_N.double())

    @property
    def equal_P(self) -> Tensor:
        return self.finite_P & (self.count_P >= 2) & (self.low_P == self.high_P)


def _find_groups(rewards_N: Tensor, group_ids_N: Tensor, valid: Tensor | None) -> tuple[_Groups, Tensor, Tensor]:
    """Check the arguments; return the groups, the rewards in float64 and the valid mask."""
    valid_N = torch.ones_like(group_ids_N, dtype=torch.bool) if valid is None else valid
    check_same_length(rewards=rewards_N, group_ids=group_ids_N, valid=valid_N)
    check_bool(valid=valid_N)
    exact_N = rewards_N.detach().double()
    num_groups, index_N = number_ids(group_ids_N, "group_ids")
    zeros_P = exact_N.new_zeros(num_groups)
    bad_N = valid_N & ~exact_N.isfinite()
    groups = _Groups(
        index_N=index_N,
        count_P=zeros_P.index_add(0, index_N, valid_N.double()),
        low_P=(zeros_P + math.inf).scatter_reduce(0, index_N, exact_N.masked_fill(~valid_N, math.inf), "amin"),
        high_P=(zeros_P - math.inf).scatter_reduce(0, index_N, exact_N.masked_fill(~valid_N, -math.inf), "amax"),
        finite_P=zeros_P.index_add(0, index_N, bad_N.double()) == 0,
    )
    return groups, exact_N, valid_N


def _group_stats(groups: _Groups, rewards_N: Tensor, valid_N: Tensor) -> GroupStats:
    """Two passes over rewards counted from the group's least, so that a common offset costs no precision."""
    index_N, count_P = groups.index_N, groups.count_P
    shifted_N = torch.where(valid_N, rewards_N - groups.low_P[index_N], 0.0)
    mean_P = groups.total_P(shifted_N) / count_P.clamp(min=1)
    deviation_N = torch.where(valid_N, shifted_N - mean_P[index_N], 0.0)
    std_P = (groups.total_P(deviation_N.square()) / (count_P - 1).clamp(min=1)).sqrt()
    return GroupStats(deviation_N, std_P[index_N], count_P[index_N])


def group_advantages(
    rewards_N: Tensor,
    group_ids_N: Tensor,
    *,
    estimator: str = "grpo",
    valid: Tensor | None = None,
    std_eps: float = 1e-6,
) -> Tensor:
    """Advantage of each rollout within its group.

    grpo: (R - mean) / (std + std_eps), arXiv 2402.03300; dr_grpo: R - mean, arXiv 2503.20783; rloo: R - mean of the
    others, arXiv 2402.14740. std has ddof 1: the rollouts are a sample of what the policy does on the prompt, and it
    is what other trainers use (`torch.std`), so that runs compare.

    Worked example, one group [0.3 x 7, 0.8]: mean 0.3625, std 0.17678; grpo -0.35355 x 7, 2.47487; dr_grpo -0.0625 x 7,
    0.4375; rloo -0.07143 x 7, 0.5.

    Args:
        rewards_N: float; computed in float64. Hand over the numbers the reward returned: sums redone in float32 can
            part equal rewards by 6e-8, which std_eps does not hide.
        group_ids_N: integers, any values, any order.
        estimator: a name in `ESTIMATORS`.
        valid: [N] bool; None = all. Invalid entries get 0 and count in no statistic.
        std_eps: grpo only, in units of reward, >= 0.
    Returns:
        [N] in the dtype of the rewards (float32 for integers). Exactly 0 where the group's valid rewards are all equal
        or fewer than two. NaN for every valid entry of a group in which a valid reward is not finite: evidence, not
        noise; mark such a reward invalid to use the rest of its group.
    Raises:
        UsageError: shapes or mask dtype. ConfigError: unknown estimator, std_eps below 0.
    """
    estimate = look_up(ESTIMATORS, estimator, "algo.estimator")
    if not 0 <= std_eps < math.inf:
        raise ConfigError(f"algo.std_eps = {std_eps}: must be finite and at least 0")
    groups, exact_N, valid_N = _find_groups(rewards_N, group_ids_N, valid)
    values_N = estimate(_group_stats(groups, exact_N, valid_N), std_eps)
    silent_P = (groups.count_P < 2) | groups.equal_P
    values_N = values_N.masked_fill(silent_P[groups.index_N], 0.0)
    values_N = values_N.masked_fill(~groups.finite_P[groups.index_N], math.nan).masked_fill(~valid_N, 0.0)
    return values_N.to(rewards_N.dtype if rewards_N.is_floating_point() else torch.float32)


def degenerate_groups(rewards_N: Tensor, group_ids_N: Tensor, valid: Tensor | None = None) -> dict[str, int]:
    """How many groups teach nothing, each counted once.

    zero_variance: two or more valid rewards, all equal; singleton: one valid reward; no_valid: none. A group with a
    valid reward that is not finite is none of these: its advantages are NaN.

    >>> degenerate_groups(torch.tensor([1.0, 1.0, 0.5]), torch.tensor([7, 7, 3]))
    {'zero_variance': 1, 'singleton': 1, 'no_valid': 0}
    """
    groups, _, _ = _find_groups(rewards_N, group_ids_N, valid)
    return {
        "zero_variance": int(groups.equal_P.sum()),
        "singleton": int(((groups.count_P == 1) & groups.finite_P).sum()),
        "no_valid": int((groups.count_P == 0).sum()),
    }
