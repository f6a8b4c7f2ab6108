"""Which token comes next: one uniform number a token, from a counter-based generator, through the inverse CDF.

The number depends on (seed of the rollout, position) alone, so a rollout's tokens do not depend on its neighbours.
Letters: B running rollouts, V vocabulary.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Words = NDArray[np.uint64]

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


def philox(counter: tuple[Words, Words, Words, Words], key: tuple[Words, Words]) -> tuple[Words, Words, Words, Words]:
    """Philox-4x32-10 (Salmon et al. 2011): ten rounds on four 32-bit words, held in 64-bit arrays.

    Example: counter and key all zero give 6627e8d5, e169c58d, bc57ac4c, 9b00dbd8.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = np.uint64(MULTIPLIERS[0]) * c0, np.uint64(MULTIPLIERS[1]) * c2
        c0, c1, c2, c3 = (p1 >> HALF) ^ c1 ^ k0, p1 & LOW, (p0 >> HALF) ^ c3 ^ k1, p0 & LOW
        k0, k1 = (k0 + np.uint64(KEY_STEPS[0])) & LOW, (k1 + np.uint64(KEY_STEPS[1])) & LOW
    return c0, c1, c2, c3


def uniforms(seeds_B: Sequence[int], positions_B: Sequence[int]) -> NDArray[np.float64]:
    """One number in [0, 1) for each (64-bit seed, position), of 53 random bits."""
    seeds, positions = np.asarray(seeds_B, np.uint64), np.asarray(positions_B, np.uint64)
    zero = np.zeros_like(positions)
    c0, c1, _, _ = philox((positions & LOW, positions >> HALF, zero, zero), (seeds & LOW, seeds >> HALF))
    bits = ((c0 << HALF) | c1) >> np.uint64(11)
    numbers: NDArray[np.float64] = bits.astype(np.float64) * 2.0**-53
    return numbers


def choose(logits_BV: Tensor, uniforms_B: Tensor) -> tuple[Tensor, Tensor]:
    """(token [B], its log-prob [B]) for logits already divided by the temperature.

    The token is the first whose cumulated probability exceeds the uniform number, so one of probability 0 is never
    chosen. Non-finite logits give a NaN log-prob, for the caller to refuse.
    """
    logprobs_BV = logits_BV.log_softmax(-1)
    cdf_BV = logprobs_BV.exp().cumsum(-1, dtype=torch.float64)
    target_B1 = uniforms_B[:, None] * cdf_BV[:, -1:]
    token_B1 = torch.searchsorted(cdf_BV, target_B1, right=True).clamp_(max=logits_BV.shape[1] - 1)
    return token_B1[:, 0], logprobs_BV.gather(1, token_B1)[:, 0]


def choose_greedy(logits_BV: Tensor) -> tuple[Tensor, Tensor]:
    """(most probable token, log-prob 0 of a certain choice; NaN where the logits are not numbers)."""
    token_B = logits_BV.argmax(-1)
    return token_B, logits_BV.logsumexp(-1) * 0.0
