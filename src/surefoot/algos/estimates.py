"""What an evaluation may claim: unbiased pass@k, and means with confidence intervals over prompts.

Answers to one prompt are alike, so prompts are what is counted: P prompts, n answers each, never P x n trials.
Letters: P prompts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Z = 1.959964  # two-sided 95% of a normal distribution


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and where its true value lies with 95% confidence; NaN bounds where one prompt cannot say."""

    mean: float
    low: float
    high: float


def pass_at_k(answers: int, correct: int, k: int) -> float:
    """Chance that at least one of `k` answers, drawn from `answers` of which `correct` are right, is right.

    1 - C(n-c, k) / C(n, k), the unbiased estimate of Chen et al. 2021 (arXiv 2107.03374), without large factorials.

    >>> pass_at_k(4, 1, 1), pass_at_k(4, 1, 2), pass_at_k(4, 0, 4), pass_at_k(4, 3, 2)
    (0.25, 0.5, 0.0, 1.0)
    """
    if not 0 <= correct <= answers or not 1 <= k <= answers:
        raise ValueError(f"pass@{k} of {correct} right among {answers}")
    return 1.0 - math.prod((answers - correct - i) / (answers - i) for i in range(k))


def reported_k(answers: int) -> list[int]:
    """The k that pass@k is reported for: powers of two, and the number of answers itself.

    >>> reported_k(1), reported_k(6), reported_k(8)
    ([1], [1, 2, 4, 6], [1, 2, 4, 8])
    """
    return sorted({*(2**power for power in range(answers.bit_length())), answers})


def share_interval(shares_P: Sequence[float], answers: int) -> Interval:
    """Interval of a mean of shares in [0, 1], one a prompt, each of `answers` trials.

    Wilson's, with the trials that the spread between prompts is worth (Miller 2024, arXiv 2411.00640, clusters by
    question): between 1 and P x answers of them, P where every prompt says 0 or every one says 1.

    >>> share_interval([0.0, 1.0] * 50, 1)  # doctest: +ELLIPSIS
    Interval(mean=0.5, low=0.402..., high=0.597...)
    >>> share_interval([1.0] * 50, 4)  # doctest: +ELLIPSIS
    Interval(mean=1.0, low=0.925..., high=1.0)
    """
    prompts, mean = len(shares_P), _mean(shares_P)
    if prompts == 0:
        return Interval(math.nan, math.nan, math.nan)
    variance, squared_error = mean * (1 - mean), _squared_error(shares_P)
    trials = float(prompts)
    if 0 < mean < 1 and prompts > 1:
        trials = min(variance / squared_error if squared_error else math.inf, float(prompts * answers))
    z = _t_quantile(prompts - 1)
    centre = (mean + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(variance / trials + z * z / (4 * trials * trials))
    return Interval(mean, max(0.0, centre - half), min(1.0, centre + half))


def mean_interval(values_P: Sequence[float]) -> Interval:
    """Student's interval of a mean of any values, one a prompt.

    >>> mean_interval([1.0, 2.0, 3.0, 4.0, 5.0])  # doctest: +ELLIPSIS
    Interval(mean=3.0, low=1.03..., high=4.96...)
    """
    mean = _mean(values_P)
    if len(values_P) < 2:
        return Interval(mean, math.nan, math.nan)
    half = _t_quantile(len(values_P) - 1) * math.sqrt(_squared_error(values_P))
    return Interval(mean, mean - half, mean + half)


def _mean(values_P: Sequence[float]) -> float:
    return float(np.mean(values_P)) if len(values_P) else math.nan


def _squared_error(values_P: Sequence[float]) -> float:
    """Of the mean, from the spread of its values; exactly 0 where they are equal."""
    if len(values_P) < 2 or min(values_P) == max(values_P):
        return 0.0
    return float(np.var(values_P, ddof=1)) / len(values_P)


T_QUANTILES = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281)


def _t_quantile(freedom: int) -> float:
    """Student's two-sided 95% quantile; beyond 10 degrees of freedom by Cornish-Fisher's series, right to 0.001."""
    if freedom < 1:
        return Z
    if freedom <= len(T_QUANTILES):
        return T_QUANTILES[freedom - 1]
    terms = (
        (Z**3 + Z) / 4,
        (5 * Z**5 + 16 * Z**3 + 3 * Z) / 96,
        (3 * Z**7 + 19 * Z**5 + 17 * Z**3 - 15 * Z) / 384,
    )
    return Z + math.fsum(term / freedom**power for power, term in enumerate(terms, start=1))
