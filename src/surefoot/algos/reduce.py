"""Token weights: every denominator of the loss, computed once for the whole batch over all ranks.

T = tokens of the batch, R = distinct rollouts. Later, loss = sum(weight * term) with no division, so the way a batch is
cut into micro-batches and ranks cannot change it.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from surefoot.algos.arguments import check_bool, check_same_length, look_up, number_ids
from surefoot.types.errors import ConfigError, UsageError

Aggregation = Callable[[Tensor, Tensor, int], Tensor]
"""(tokens_R, rollout_T, constant_length) -> weight_T of a trainable token; `tokens_R` counts trainable tokens."""


def _token_mean(tokens_R: Tensor, rollout_T: Tensor, constant_length: int) -> Tensor:
    return (1 / tokens_R.sum()).expand_as(rollout_T)


def _sample_mean(tokens_R: Tensor, rollout_T: Tensor, constant_length: int) -> Tensor:
    return 1 / (tokens_R.count_nonzero() * tokens_R[rollout_T])


def _constant(tokens_R: Tensor, rollout_T: Tensor, constant_length: int) -> Tensor:
    if constant_length <= 0:
        raise ConfigError(f"algo.constant_length = {constant_length}: aggregation 'constant' needs a length above 0")
    return (1 / (tokens_R.count_nonzero() * constant_length).double()).expand_as(rollout_T)


AGGREGATIONS: dict[str, Aggregation] = {"token_mean": _token_mean, "sample_mean": _sample_mean, "constant": _constant}


def _check_samples(sample_ids_T: Tensor, rollout_T: Tensor) -> None:
    """A sample is part of one rollout; anything else means ids that restart per rank or per micro-batch."""
    num_samples, sample_T = number_ids(sample_ids_T, "sample_ids")
    empty_S = rollout_T.new_zeros(num_samples)
    low_S = empty_S.scatter_reduce(0, sample_T, rollout_T, "amin", include_self=False)
    high_S = empty_S.scatter_reduce(0, sample_T, rollout_T, "amax", include_self=False)
    torn_T = (low_S != high_S)[sample_T]
    if torn_T.any():
        raise UsageError(f"sample id {int(sample_ids_T[torn_T][0])} is in more than one rollout; number batch-wide")


def token_weights(
    loss_mask_T: Tensor,
    sample_ids_T: Tensor,
    rollout_ids_T: Tensor,
    *,
    aggregation: str,
    constant_length: int = 0,
) -> Tensor:
    """Weight of each token in the loss, for the whole batch at once.

    token_mean: 1 / trainable tokens (DAPO, arXiv 2503.14476). sample_mean: mean over rollouts with a trainable token of
    their token means; samples fanned out of one rollout share its denominator. constant: 1 / (those rollouts *
    constant_length) (Dr.GRPO, arXiv 2503.20783).

    Worked example, rollouts of 1 and 3 trainable tokens with terms [4] and [1, 2, 3]: token_mean [1/4] * 4, loss 2.5;
    sample_mean [1/2, 1/6, 1/6, 1/6], loss 3; constant with length 4 [1/8] * 4, loss 1.25.

    Args:
        loss_mask_T: bool, trainable tokens. sample_ids_T, rollout_ids_T: integers, unique over the whole batch.
        aggregation: a name in `AGGREGATIONS`.
        constant_length: tokens a rollout, > 0, constant only.
    Returns:
        [T] float64. Untrained tokens weigh 0 and count nowhere; with no trainable token all weigh 0.
    Raises:
        ConfigError: unknown aggregation, no constant_length. UsageError: shapes, mask dtype, a sample in two rollouts.
    """
    weigh = look_up(AGGREGATIONS, aggregation, "algo.aggregation")
    check_same_length(loss_mask=loss_mask_T, sample_ids=sample_ids_T, rollout_ids=rollout_ids_T)
    check_bool(loss_mask=loss_mask_T)
    num_rollouts, rollout_T = number_ids(rollout_ids_T, "rollout_ids")
    _check_samples(sample_ids_T, rollout_T)
    zeros_R = torch.zeros(num_rollouts, dtype=torch.float64, device=loss_mask_T.device)
    tokens_R = zeros_R.index_add(0, rollout_T, loss_mask_T.double())
    # `where` selects: an all-masked batch divides by 0 in entries that are not taken.
    return torch.where(loss_mask_T, weigh(tokens_R, rollout_T, constant_length), 0.0)


def token_sums(columns: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Detached float64 0-d sums of columns [T] of any dtypes: two kernels for all of them, no host synchronisation.

    >>> token_sums({"ratio": torch.tensor([1.0, 2.5]), "clipped": torch.tensor([True, False])})
    {'ratio': tensor(3.5000, dtype=torch.float64), 'clipped': tensor(1., dtype=torch.float64)}
    """
    sums_K = torch.stack([column_T.detach() for column_T in columns.values()]).sum(1, dtype=torch.float64)
    return dict(zip(columns, sums_K.unbind(), strict=True))
