"""Per-token estimates of KL(policy, reference). T = tokens; q = logprobs - ref_logprobs, nats.

Computed in float64 whatever comes in: exp(-q) - 1 + q is about q^2 / 2, and at q = 0.001 float32 leaves it one digit.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from surefoot.algos.arguments import check_same_length, look_up
from surefoot.algos.ratio import bounded, check_bound, promoted

LOW_VAR_LIMIT = 10.0

Kind = Callable[[Tensor, float], tuple[Tensor, Tensor]]
"""(q_T, bound) -> (estimate_T, bool mask of tokens whose gradient a bound made 0)."""


def _k1(q_T: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    return q_T, torch.zeros_like(q_T, dtype=torch.bool)


def _k2(q_T: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    return q_T.square() / 2, torch.zeros_like(q_T, dtype=torch.bool)


def _k3(q_T: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    # The bounded q in both places: outside exp alone, the free +q would push the wrong way with gradient 1.
    q_T, bounded_T = bounded(q_T, bound)
    return torch.expm1(-q_T) + q_T, bounded_T


def _low_var_kl(q_T: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    k3_T, bounded_T = _k3(q_T, bound)
    # clamp keeps NaN, and k3 of a non-finite q is NaN, never inf.
    return k3_T.clamp(-LOW_VAR_LIMIT, LOW_VAR_LIMIT), bounded_T | (k3_T > LOW_VAR_LIMIT)


KINDS: dict[str, Kind] = {"k1": _k1, "k2": _k2, "k3": _k3, "low_var_kl": _low_var_kl}


def kl_and_bounded(
    logprobs_T: Tensor, ref_logprobs_T: Tensor, *, kind: str, bound: float = 20.0
) -> tuple[Tensor, Tensor]:
    """(`kl_estimate` [T], bool [T]: tokens whose KL gradient is 0 because a bound bit, to be counted).

    >>> kl_and_bounded(torch.tensor([-1.0, -5.0, -99.0]), torch.zeros(3), kind="low_var_kl")[1]
    tensor([False,  True,  True])
    """
    evaluate = look_up(KINDS, kind, "algo.kl_kind")
    check_same_length(logprobs=logprobs_T, ref_logprobs=ref_logprobs_T)
    dtype = torch.promote_types(promoted(logprobs_T).dtype, promoted(ref_logprobs_T).dtype)
    check_bound(bound, dtype)
    value_T, bounded_T = evaluate(logprobs_T.double() - ref_logprobs_T.detach().double(), bound)
    return value_T.to(dtype), bounded_T


def kl_estimate(logprobs_T: Tensor, ref_logprobs_T: Tensor, *, kind: str, bound: float = 20.0) -> Tensor:
    """Estimate of KL(policy, reference) at tokens sampled from the policy.

    k1: q; k2: q^2 / 2; k3: exp(-q) - 1 + q with q bounded to +-bound in both places (Schulman,
    http://joschu.net/blog/kl-approx.html); low_var_kl: k3 clamped to +-10 (slime's name), so its gradient is 0 below
    q = -2.61 and above q = 11. The gradient is 0 beyond a bound; `kl_and_bounded` says where.

    Worked example, k3: q = -0.1 gives exp(0.1) - 1.1 = 0.0051709, gradient 1 - exp(0.1) = -0.10517; q = -100 gives
    exp(20) - 21, gradient 0.

    Args:
        logprobs_T: nats, carries the gradient; ref_logprobs_T is taken as a constant.
        bound: nats, k3 and low_var_kl only.
    Returns:
        [T], float32, or float64 where an input is. Not finite where q is not: that is evidence for the verdict.
    Raises:
        ConfigError: unknown kind, or a bound whose exp overflows. UsageError: shapes differ.
    """
    return kl_and_bounded(logprobs_T, ref_logprobs_T, kind=kind, bound=bound)[0]
