"""The policy loss. T = trainable tokens of a micro-batch; rows that do not train were selected away before."""

import torch
from torch import Tensor

from surefoot.algos.arguments import check_same_length
from surefoot.algos.correction import importance_weights
from surefoot.algos.ratio import bounded, promoted
from surefoot.algos.reduce import token_sums
from surefoot.config.schema import AlgoConfig


def policy_loss(
    logprobs_T: Tensor,
    old_logprobs_T: Tensor,
    sampler_logprobs_T: Tensor,
    advantages_T: Tensor,
    token_weights_T: Tensor,
    sample_ids_T: Tensor,
    *,
    config: AlgoConfig,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Clipped policy loss: sum of token weight * correction * max(-A r, -A clip(r, 1 - clip_low, 1 + clip_high)).

    r = exp(logprobs - old), its exponent bounded to +-log_ratio_bound (PPO, arXiv 1707.06347; clip-higher, arXiv
    2503.14476). The weights carry every division (`token_weights`), so losses of micro-batches and ranks add up.

    Worked example, one token of weight 1, r = 1.5, clip 0.2: A = 1 gives -1.2, gradient 0 (clipped); A = -1 gives 1.5,
    gradient 1.5. At logprobs - old = 99.9: A = 1 gives -1.2, A = -1 gives exp(20), A = 0 gives 0; gradient 0 each.

    Args:
        logprobs_T: nats, carries the gradient; every other tensor is taken as a constant.
        old_logprobs_T, sampler_logprobs_T: nats. advantages_T: per token. token_weights_T: from `token_weights`.
        sample_ids_T: integers. T may be 0: the loss is 0 and still has a graph.
        config: reads clip_low, clip_high, correction, tis_cap, log_ratio_bound.
    Returns:
        (loss, metrics): a 0-d loss in the widest dtype of the inputs, at least float32, and detached float64 0-d sums
        over tokens, free of host synchronisation: clipped_tokens (the clip binds), bounded_log_ratios, ratio_sum,
        kl_old_sum (k3 estimate of KL(old, policy)), abs_term_sum (|weight * term|) and the correction's. A token whose
        ratio, correction or advantage is not finite makes the loss, and its own gradient, NaN.
    Raises:
        UsageError: shapes differ. ConfigError: a bound whose exp overflows.
    """
    check_same_length(
        logprobs=logprobs_T,
        old_logprobs=old_logprobs_T,
        sampler_logprobs=sampler_logprobs_T,
        advantages=advantages_T,
        token_weights=token_weights_T,
        sample_ids=sample_ids_T,
    )
    old_T = promoted(old_logprobs_T.detach())
    term_T, sums = _clipped_term(promoted(logprobs_T), old_T, promoted(advantages_T.detach()), config)
    correction_T, _, metrics = importance_weights(
        old_T,
        sampler_logprobs_T,
        sample_ids_T,
        kind=config.correction,
        cap=config.tis_cap,
        bound=config.log_ratio_bound,
    )
    # Multiplying is safe: selection came before, the exponents are bounded, so what is not finite here is evidence.
    terms_T = promoted(token_weights_T.detach()) * correction_T * term_T
    sums |= {"abs_term_sum": terms_T.abs()}
    return terms_T.sum(), metrics | token_sums(sums)


def _clipped_term(
    logprobs_T: Tensor, old_T: Tensor, advantages_T: Tensor, config: AlgoConfig
) -> tuple[Tensor, dict[str, Tensor]]:
    """(PPO's clipped term [T], columns to sum)."""
    log_ratio_T, bounded_T = bounded(logprobs_T - old_T, config.log_ratio_bound)
    ratio_T, wide_T = log_ratio_T.exp(), log_ratio_T.detach().double()
    free_T = -advantages_T * ratio_T
    clipped_T = -advantages_T * ratio_T.clamp(1 - config.clip_low, 1 + config.clip_high)
    columns = {"clipped_tokens": clipped_T > free_T, "bounded_log_ratios": bounded_T, "ratio_sum": ratio_T}
    columns["kl_old_sum"] = wide_T.expm1() - wide_T  # k3 of old - logprobs, with the bound in both places
    return torch.maximum(free_T, clipped_T), columns
