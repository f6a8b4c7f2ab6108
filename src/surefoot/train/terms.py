"""One micro-batch's loss and the sums reported of it, from the log-probs of its trainable tokens.

Letters: T packed positions, N trainable tokens.
"""

from typing import Any

import torch
from torch import Tensor

from surefoot.algos import policy_loss
from surefoot.algos.kl import kl_and_bounded
from surefoot.algos.reduce import token_sums
from surefoot.config.schema import AlgoConfig
from surefoot.types.train import Microbatch


def loss_terms(
    microbatch: Microbatch, logprobs_N: Tensor, entropy_N: Tensor, *, algo: AlgoConfig
) -> tuple[Tensor, dict[str, Tensor]]:
    """(loss to differentiate, detached 0-d sums over tokens); nothing waits for the device.

    The names of the sums depend on the configuration alone, so they are the same on every rank.
    """
    device = logprobs_N.device

    def rows(array_T: Any) -> Tensor:
        return torch.from_numpy(array_T[microbatch.loss_mask_T]).to(device, non_blocking=True)

    weights_N = rows(microbatch.token_weights_T).to(logprobs_N.dtype)
    old_N, behavior_N = rows(microbatch.old_logprobs_T), rows(microbatch.behavior_logprobs_T)
    advantages_N, ids_N = rows(microbatch.advantages_T), rows(microbatch.sample_ids_T)
    loss, sums = policy_loss(logprobs_N, old_N, behavior_N, advantages_N, weights_N, ids_N, config=algo)
    columns = {"entropy": entropy_N, "nonfinite_logprobs": ~logprobs_N.detach().isfinite()}
    if len(microbatch.reference_logprobs_T):
        kl_N, bounded_N = _kl_to_reference(logprobs_N, rows(microbatch.reference_logprobs_T), algo)
        columns |= {"kl_reference": kl_N, "kl_bounded": bounded_N}
        loss = loss + algo.kl_coef * (weights_N * kl_N).sum() if algo.kl_coef else loss
    of_loss = {"loss": loss.detach(), "nonfinite_losses": ~loss.detach().isfinite()}
    return loss, sums | token_sums(columns) | of_loss


def _kl_to_reference(logprobs_N: Tensor, reference_N: Tensor, algo: AlgoConfig) -> tuple[Tensor, Tensor]:
    held_N = logprobs_N if algo.kl_coef else logprobs_N.detach()  # a zero coefficient adds nothing to the graph
    return kl_and_bounded(held_N, reference_N, kind=algo.kl_kind, bound=algo.log_ratio_bound)


MEANS = {  # what a sum over trainable tokens is called once it is divided by their number
    "ratio_sum": "ratio",
    "kl_old_sum": "kl_old",
    "correction_sum": "correction",
    "clipped_tokens": "clip_fraction",
    "bounded_log_ratios": "bounded_fraction",
    "correction_capped": "correction_capped_fraction",
    "correction_bounded": "correction_bounded_fraction",
    "correction_rejected": "correction_rejected_fraction",
    "kl_reference": "kl_reference",
    "kl_bounded": "kl_bounded_fraction",
    "entropy": "entropy",
}


def per_token(sums: dict[str, float], num_tokens: int) -> dict[str, float]:
    """What is reported beside the loss: means over the batch's trainable tokens where `MEANS` says so; the rest are
    counts or weighted sums already."""
    reported = {name: value for name, value in sums.items() if name != "loss"}
    return {MEANS.get(k, k): v / max(num_tokens, 1) if k in MEANS else v for k, v in reported.items()}
