"""Corrections of the sampler/trainer mismatch: weights from exp(old - mu). T = tokens.

A new kind is one function and one line in `CORRECTIONS`; what it needs beyond `cap` becomes a field of `Limits`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.algos.arguments import check_same_length, look_up
from surefoot.algos.ratio import bounded_exp, promoted
from surefoot.algos.reduce import token_sums
from surefoot.types.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Limits:
    cap: float  # greatest weight
    bound: float  # of the log-ratio, nats


Masks = dict[str, Tensor]
Correction = Callable[[Tensor, Tensor, Limits], tuple[Tensor, Tensor, Masks]]
"""(log_ratio_T, sample_ids_T, limits) -> (weights_T, kept_T, masks to count); weights are 0 where not kept."""


def _none(log_ratio_T: Tensor, sample_ids_T: Tensor, limits: Limits) -> tuple[Tensor, Tensor, Masks]:
    none_T = torch.zeros_like(log_ratio_T, dtype=torch.bool)
    return torch.ones_like(log_ratio_T), ~none_T, {"correction_capped": none_T, "correction_bounded": none_T}


def _tis(log_ratio_T: Tensor, sample_ids_T: Tensor, limits: Limits) -> tuple[Tensor, Tensor, Masks]:
    ratio_T, bounded_T = bounded_exp(log_ratio_T, limits.bound)
    capped_T = ratio_T > limits.cap
    kept_T = torch.ones_like(capped_T)
    return ratio_T.clamp(max=limits.cap), kept_T, {"correction_capped": capped_T, "correction_bounded": bounded_T}


CORRECTIONS: dict[str, Correction] = {"none": _none, "tis": _tis}


def importance_weights(
    old_logprobs_T: Tensor,
    sampler_logprobs_T: Tensor,
    sample_ids_T: Tensor,
    *,
    kind: str,
    cap: float = 2.0,
    bound: float = 20.0,
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Weights that correct for tokens having been sampled by mu and not by the trainer's old policy.

    none: 1. tis: min(exp(old - mu), cap), truncated importance sampling
    (https://fengyao.notion.site/off-policy-rl), the exponent bounded to +-bound.

    Worked example, tis with cap 2: old - mu = [0.1, 1.0, -99] gives [1.10517, 2, exp(-20)], capped 1, bounded 1.

    Args:
        old_logprobs_T, sampler_logprobs_T: nats, trainable tokens only; no gradient passes.
        sample_ids_T: integers, for kinds that weigh whole sequences.
    Returns:
        (weights_T, kept_T bool, metrics). Weights are float32 (float64 where an input is), detached, 0 where not kept,
        NaN under tis where old - mu is not finite; `none` does not look at mu. Metrics are float64 sums over tokens:
        correction_capped, correction_bounded, correction_rejected, correction_sum.
    Raises:
        ConfigError: unknown kind, cap not above 0, a bound whose exp overflows. UsageError: shapes differ.
    """
    correct = look_up(CORRECTIONS, kind, "algo.correction")
    if not cap > 0:
        raise ConfigError(f"algo.tis_cap = {cap}: must be above 0")
    check_same_length(old_logprobs=old_logprobs_T, sampler_logprobs=sampler_logprobs_T, sample_ids=sample_ids_T)
    log_ratio_T = promoted(old_logprobs_T.detach()) - promoted(sampler_logprobs_T.detach())
    weights_T, kept_T, masks = correct(log_ratio_T, sample_ids_T, Limits(cap, bound))
    return weights_T, kept_T, token_sums(masks | {"correction_rejected": ~kept_T, "correction_sum": weights_T})
