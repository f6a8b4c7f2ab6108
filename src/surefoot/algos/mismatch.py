"""How far sampler and trainer disagree on the tokens that were sampled. T = trainable tokens of a step.

A mean alone hides everything: one token 100 nats off among 65,536 moves it by 0.0015.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surefoot.types.errors import UsageError

Logprobs = Tensor | NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class MismatchStats:
    """Of |logprobs - sampler_logprobs|, nats; `kl` estimates KL(sampler, trainer); `worst` is the max's index.

    With T = 0 all are 0 and worst is -1.
    """

    mean: float
    p99: float
    max: float
    kl: float
    worst: int


def _exact(values_T: Logprobs) -> NDArray[np.float64]:
    if isinstance(values_T, Tensor):
        return values_T.detach().to("cpu", torch.float64).numpy()
    return np.asarray(values_T, dtype=np.float64)


def mismatch_stats(logprobs_T: Logprobs, sampler_logprobs_T: Logprobs) -> MismatchStats:
    """Statistics of d = logprobs - sampler_logprobs, in float64, on the host.

    p99 is the nearest rank: the ceil(0.99 T)-th smallest |d|, an observed value, NaN ranking above inf. kl is the mean
    of exp(d) - 1 - d, the k3 estimate for tokens sampled by the sampler; it is a report, so its exponent is not bounded
    and it may be inf. A non-finite d makes max NaN (if any is NaN) or inf, and worst the first such token.

    Worked example: d = [0.1, -0.3] gives mean 0.2, p99 0.3, max 0.3, kl (0.005171 + 0.040818) / 2 = 0.022995, worst 1.

    Args:
        logprobs_T, sampler_logprobs_T: nats, torch (any float dtype and device) or numpy.
    Raises:
        UsageError: not 1-D, or lengths differ.
    """
    trainer_T, sampler_T = _exact(logprobs_T), _exact(sampler_logprobs_T)
    if trainer_T.ndim != 1 or trainer_T.shape != sampler_T.shape:
        raise UsageError(f"expected 1-D of one length, got {list(trainer_T.shape)} and {list(sampler_T.shape)}")
    count = len(trainer_T)
    if count == 0:
        return MismatchStats(mean=0.0, p99=0.0, max=0.0, kl=0.0, worst=-1)
    with np.errstate(over="ignore", invalid="ignore"):  # inf and NaN are reported as results
        d_T = trainer_T - sampler_T
        gap_T = np.abs(d_T)
        return MismatchStats(
            mean=float(gap_T.mean()),
            p99=float(np.sort(gap_T)[-(-99 * count // 100) - 1]),
            max=float(gap_T.max()),
            kl=float((np.expm1(d_T) - d_T).mean()),
            worst=int(gap_T.argmax()),
        )
