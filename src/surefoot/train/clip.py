"""The gradient norm and what it clips to, in float64.

Squares of healthy float32 gradients overflow float32 above 1.8e19, which turns a step into zeros or NaN.
"""

import math
from collections.abc import Sequence

import torch
from torch.distributed.tensor import DTensor

SMALLEST_NORMAL = torch.finfo(torch.float32).tiny
LARGEST_SQUARABLE = math.sqrt(torch.finfo(torch.float32).max)


def grad_norm_sq(grads: Sequence[torch.Tensor]) -> torch.Tensor:
    """Sum of squares of this rank's gradients, as a float64 0-d tensor on their device; inf and NaN come through.

    grads: local shards of any shapes and dtypes on one device; the caller adds the ranks' results. No host
    synchronisation. No gradients give 0 on the CPU.
    64 entries of 3e19 give 5.76e40, where float32 gives inf.

    Errors: TypeError for a DTensor: its sum would be a pending one. Take `to_local()` first.
    """
    if any(isinstance(grad, DTensor) for grad in grads):
        raise TypeError("grad_norm_sq takes local shards; call to_local() on DTensors")
    if not grads:
        return torch.zeros((), dtype=torch.float64)
    norms = torch._foreach_norm(list(grads), 2.0, dtype=torch.float64)
    return torch.stack(norms).square().sum()


def clip_coefficient(norm: float, max_norm: float) -> float:
    """What to multiply gradients of this norm by so that it is at most max_norm; 1.0 where max_norm is 0 (off).

    >>> clip_coefficient(10.0, 1.0), clip_coefficient(0.5, 1.0), clip_coefficient(10.0, 0.0)
    (0.1, 1.0, 1.0)

    Errors: ValueError where norm is not finite, which must never reach a gradient, or an argument is negative.
    """
    if not (math.isfinite(norm) and norm >= 0):
        raise ValueError(f"a gradient norm of {norm} cannot scale gradients")
    if not (math.isfinite(max_norm) and max_norm >= 0):
        raise ValueError(f"train.max_grad_norm must be finite and not negative, got {max_norm}")
    return 1.0 if max_norm == 0 or norm <= max_norm else max_norm / norm


def scale_gradients(grads: Sequence[torch.Tensor], factor: float) -> None:
    """Multiply in place. A finite norm may be 1e43: a factor that is subnormal in float32 is applied as two."""
    if factor == 1.0:
        return
    steps = 1 if factor >= SMALLEST_NORMAL else 2
    for _ in range(steps):
        torch._foreach_mul_(list(grads), factor ** (1 / steps))


def is_squarable(norm: float, max_norm: float) -> bool:
    """Whether a gradient of this finite norm, clipped to max_norm (0: not), can enter an optimizer's second moment.

    Beyond 1.8e19 a square is inf in float32: the moment would stay inf, and its weight would never move again.

    >>> is_squarable(2.4e20, 1.0), is_squarable(2.4e20, 0.0)
    (True, False)
    """
    return norm * clip_coefficient(norm, max_norm) <= LARGEST_SQUARABLE
