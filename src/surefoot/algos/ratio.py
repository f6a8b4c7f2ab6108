"""Exponents that cannot overflow, and precision that is enough for them.

T = tokens. Clamping after exp leaves a finite value with a NaN gradient (0 * inf), so the exponent is bounded first.
"""

import math

import torch
from torch import Tensor

from surefoot.types.errors import ConfigError


def promoted(values_T: Tensor) -> Tensor:
    """Formats below 32 bits become float32; wider ones stay. exp(20) does not fit fp16."""
    return values_T if values_T.dtype.itemsize >= 4 else values_T.float()


def check_bound(bound: float, dtype: torch.dtype) -> None:
    """Raise `ConfigError` unless 0 < bound and exp(bound) is finite in `dtype` (float32: at most 88)."""
    limit = math.floor(math.log(torch.finfo(dtype).max))
    if not 0 < bound <= limit:
        raise ConfigError(f"algo.log_ratio_bound = {bound}: must be above 0 and at most {limit} for {dtype}")


def bounded(log_ratio_T: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    """Clamp finite log-ratios to +-bound; say which were clamped.

    Gradient 0 beyond the bound. A non-finite log-ratio is never clamped into a healthy number: it comes out as NaN,
    with a NaN gradient, so both the loss and the log-prob gradient still point at the token.

    >>> bounded(torch.tensor([0.5, -99.9]), 20.0)
    (tensor([  0.5000, -20.0000]), tensor([False,  True]))
    """
    check_bound(bound, log_ratio_T.dtype)
    finite_T = log_ratio_T.isfinite()
    # Times 0, not a constant NaN: a constant would cut the graph and give the bad token gradient 0.
    value_T = torch.where(finite_T, log_ratio_T.clamp(-bound, bound), log_ratio_T * 0)
    return value_T, finite_T & (log_ratio_T.abs() > bound)


def bounded_exp(log_ratio_T: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    """exp of the log-ratio bounded to +-bound, and the mask of tokens the bound bit.

    Args:
        log_ratio_T: difference of log-probs, nats; fp16 and bf16 are promoted to float32.
        bound: nats.
    Returns:
        (ratio_T, bounded_T bool). exp(-inf) would be a healthy 0: non-finite log-ratios give NaN instead.

    >>> bounded_exp(torch.tensor([0.0, 99.9]), 20.0)
    (tensor([1.0000e+00, 4.8517e+08]), tensor([False,  True]))
    """
    value_T, bounded_T = bounded(promoted(log_ratio_T), bound)
    return value_T.exp(), bounded_T
