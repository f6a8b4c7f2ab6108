"""What each rank saw of an attempt, and what all make of it together: one all-reduce, one wait for the device."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from surefoot.train.clip import grad_norm_sq
from surefoot.train.hooks import Refusal
from surefoot.train.shard import World
from surefoot.types.train import Batch, Microbatch, NonFinite


@dataclass(frozen=True, slots=True, eq=False)
class Backward:
    """One rank's micro-batches, run. `totals`: 0-d float64 sums; incomplete where there is an `error`."""

    totals: dict[str, Tensor]
    logprobs_MN: list[Tensor]
    error: str  # "" where nothing was raised


@dataclass(frozen=True, slots=True)
class Agreed:
    """The same numbers on every rank."""

    sums: dict[str, float]
    nonfinite: NonFinite
    norm_sq: float  # of the scaled gradient
    failed: bool
    refused: bool
    halt_asked: bool
    told: str  # what hooks and errors said, with their ranks; "" where all was quiet


def agree(
    batch: Batch,
    seen: Backward,
    grads: Sequence[Tensor],
    refusals: Sequence[Refusal],
    *,
    names: Sequence[str],
    world: World,
) -> Agreed:
    """names: of the sums, on every rank the same ones, whatever this rank came to see."""
    numbers = _as_vector(seen, grads, refusals, names=names, device=world.device)
    norm_sq, *values, failed, refused, halt_asked = world.sum(numbers).tolist()  # the one wait before the decision
    sums = dict(zip(names, values, strict=True))
    if failed:
        norm_sq, sums["loss"] = math.nan, math.nan  # a part of the batch is missing in them
    nonfinite = NonFinite(
        inputs=sum(nonfinite_inputs(m) for row in batch.microbatches_RM for m in row),
        logprobs=int(sums.pop("nonfinite_logprobs")),
        losses=int(sums.pop("nonfinite_losses")),
        gradient=not failed and not math.isfinite(norm_sq),
    )
    told = _told(seen, refusals, world) if failed or refused or halt_asked else ""
    return Agreed(sums, nonfinite, norm_sq, failed > 0, refused > 0, halt_asked > 0, told)


def add_up(sums_M: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Over micro-batches, in float64; a micro-batch that failed has none."""
    whole = [sums for sums in sums_M if sums]
    if not whole:
        return {}
    sums_MK = torch.stack([torch.stack([value.double() for value in sums.values()]) for sums in whole])
    return dict(zip(whole[0], sums_MK.sum(0).unbind(), strict=True))


def _as_vector(
    seen: Backward, grads: Sequence[Tensor], refusals: Sequence[Refusal], *, names: Sequence[str], device: torch.device
) -> Tensor:
    """This rank's squared norm, sums, and three flags: failed, refused, asked for a halt."""
    zero = torch.zeros((), dtype=torch.float64, device=device)
    sums_K = torch.stack([grad_norm_sq(grads).to(device), *(seen.totals.get(name, zero) for name in names)])
    flags = (seen.error != "", any(not refusal.halt for refusal in refusals), any(refusal.halt for refusal in refusals))
    return torch.cat([sums_K, torch.tensor(flags, dtype=torch.float64).to(device, non_blocking=True)])


def _told(seen: Backward, refusals: Sequence[Refusal], world: World) -> str:
    said = [*([seen.error] if seen.error else []), *(refusal.why for refusal in refusals)]
    mine = [f"rank {world.rank}: {line}" if world.size > 1 else line for line in said]
    return "; ".join(line for lines in world.gather(mine) for line in lines)


def nonfinite_inputs(microbatch: Microbatch) -> int:
    """Trainable tokens whose given log-probs or advantage are not finite, whether or not a term looks at them."""
    finite_T = np.all([np.isfinite(column_T) for column_T in inputs_of(microbatch).values()], axis=0)
    return int((~finite_T & microbatch.loss_mask_T).sum())


def inputs_of(microbatch: Microbatch) -> dict[str, np.ndarray]:
    """Numbers per token that a step is given, by what they are called when one is not finite."""
    return {
        "advantage": microbatch.advantages_T,
        "sampler's log-prob": microbatch.behavior_logprobs_T,
        "old log-prob": microbatch.old_logprobs_T,
    }


def has_signal(batch: Batch) -> bool:
    """Whether any trainable token of any rank has an advantage that is not 0 (NaN counts: it is not nothing)."""
    rows = (m for row in batch.microbatches_RM for m in row)
    return any((m.advantages_T[m.loss_mask_T] != 0).any() for m in rows)
