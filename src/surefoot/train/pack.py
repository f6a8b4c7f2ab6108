"""Samples to packed micro-batches, and per-token values back to samples.

Letters: L tokens of a sample, T packed positions of a micro-batch, S samples in it, R ranks, M micro-batches.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from surefoot.train.placement import plan_pack
from surefoot.types.rollout import BoolArray, FloatArray, IntArray, Sample
from surefoot.types.train import Batch, Microbatch, OldSource

FILLER_SAMPLE = -1  # `sample_ids_T` of the one position of an empty micro-batch


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """A sample shifted by one: everything but `inputs` is that of the token predicted."""

    inputs: NDArray[Any]
    labels: NDArray[Any]
    loss_mask: NDArray[Any]
    token_weights: NDArray[Any]
    behavior_logprobs: NDArray[Any]
    old_logprobs: NDArray[Any]
    reference_logprobs: NDArray[Any]
    advantages: NDArray[Any]


def pack(
    samples: Sequence[Sample],
    *,
    ranks: int,
    max_tokens: int,
    token_weights: Sequence[FloatArray],
    old_logprobs: Sequence[FloatArray],
    reference_logprobs: Sequence[FloatArray] | None,
    old_source: OldSource,
    linear_cost: float,
    quadratic_cost: float,
) -> Batch:
    """One update's samples as packed micro-batches for every rank.

    token_weights, old_logprobs, reference_logprobs: an array [L] a sample, aligned to `token_ids_L`.
    max_tokens: packed positions of a micro-batch. A sample of L tokens takes L-1: its last token is never an input
    and its first never a label, so with ids 5 6 7 the inputs are 5 6, the labels 6 7, the positions 0 1, and the
    mask, weights, log-probs and advantages are those of 6 7. Costs: FLOPs per position and per squared length, in
    any unit (see `plan_pack`).

    An empty micro-batch is one position of a real token (id 0 in a batch of no samples) with loss_mask False,
    weight 0 and sample id `FILLER_SAMPLE`: it runs like any other and adds nothing. `min_version` and `max_version`
    are over trainable tokens, -1 where there is none.

    Errors: ValueError naming the sample's ref where it is longer than the budget, has fewer than 2 tokens, has an
    array of another length, or trains its first token, which nothing predicts.
    """
    columns = _columns(samples, token_weights, old_logprobs, reference_logprobs)
    for sample, column in zip(samples, columns, strict=True):
        if len(column.labels) > max_tokens:
            raise ValueError(
                f"{sample.ref}: {len(sample.token_ids_L)} tokens take {len(column.labels)} positions; "
                f"train.max_tokens is {max_tokens}"
            )
    plan_RM = plan_pack(
        [len(column.labels) for column in columns],
        ranks=ranks,
        max_tokens=max_tokens,
        linear_cost=linear_cost,
        quadratic_cost=quadratic_cost,
    )
    filler = make_filler(
        int(samples[0].token_ids_L[0]) if samples else 0, with_reference=reference_logprobs is not None
    )
    versions = np.concatenate([np.empty(0, np.int32), *(s.versions_L[s.loss_mask_L] for s in samples)])
    return Batch(
        microbatches_RM=tuple(
            tuple(_microbatch({i: columns[i] for i in indices}) if indices else filler for indices in plan_M)
            for plan_M in plan_RM
        ),
        num_tokens=len(versions),
        num_samples=len(samples),
        refs=tuple(sample.ref for sample in samples),
        min_version=int(versions.min()) if len(versions) else -1,
        max_version=int(versions.max()) if len(versions) else -1,
        old_source=old_source,
    )


def unpack(microbatches: Sequence[Microbatch], values_MT: Sequence[NDArray[Any]]) -> dict[int, NDArray[Any]]:
    """Per-position values back to samples: {index in `Batch.refs`: values [L-1]}, entry t speaks of token t+1.

    values_MT: an array [T] for each micro-batch, in their order. Fillers are left out. The arrays are views.
    Packed samples 1 (2 positions) and 0 (1 position) with values [.1 .2 .3] give {1: [.1 .2], 0: [.3]}.

    Errors: ValueError for a count or length that does not match, and for a sample that appears twice.
    """
    if len(microbatches) != len(values_MT):
        raise ValueError(f"{len(microbatches)} micro-batches but {len(values_MT)} arrays of values")
    values: dict[int, NDArray[Any]] = {}
    for number, (microbatch, values_T) in enumerate(zip(microbatches, values_MT, strict=True)):
        if values_T.shape != microbatch.input_ids_T.shape:
            raise ValueError(f"micro-batch {number}: values {values_T.shape}, positions {microbatch.input_ids_T.shape}")
        for index, start, stop in _spans(microbatch):
            if index in values:
                raise ValueError(f"micro-batch {number}: sample {index} appears twice")
            values[index] = values_T[start:stop]
    return values


def alone(microbatch: Microbatch) -> Iterator[tuple[int, Microbatch]]:
    """(index in `Batch.refs`, the sample as a micro-batch of its own) for each sample; weights stay as they are."""
    for index, start, stop in _spans(microbatch):
        cut = slice(start, stop)
        yield (
            index,
            Microbatch(
                input_ids_T=microbatch.input_ids_T[cut],
                labels_T=microbatch.labels_T[cut],
                positions_T=microbatch.positions_T[cut],
                cu_seqlens_S1=np.array([0, stop - start], np.int32),
                sample_ids_T=microbatch.sample_ids_T[cut],
                loss_mask_T=microbatch.loss_mask_T[cut],
                token_weights_T=microbatch.token_weights_T[cut],
                behavior_logprobs_T=microbatch.behavior_logprobs_T[cut],
                old_logprobs_T=microbatch.old_logprobs_T[cut],
                reference_logprobs_T=microbatch.reference_logprobs_T[cut],  # of length 0 where there are none
                advantages_T=microbatch.advantages_T[cut],
            ),
        )


def _spans(microbatch: Microbatch) -> Iterator[tuple[int, int, int]]:
    for start, stop in pairwise(microbatch.cu_seqlens_S1.tolist()):
        index = int(microbatch.sample_ids_T[start])
        if index != FILLER_SAMPLE:
            yield index, start, stop


def _columns(
    samples: Sequence[Sample],
    token_weights: Sequence[FloatArray],
    old_logprobs: Sequence[FloatArray],
    reference_logprobs: Sequence[FloatArray] | None,
) -> list[_Columns]:
    given = {"token_weights": token_weights, "old_logprobs": old_logprobs}
    if reference_logprobs is not None:
        given["reference_logprobs"] = reference_logprobs
    for name, arrays in given.items():
        if len(arrays) != len(samples):
            raise ValueError(f"{name}: {len(arrays)} arrays for {len(samples)} samples")
    return [_shift(sample, {name: arrays[i] for name, arrays in given.items()}) for i, sample in enumerate(samples)]


def _shift(sample: Sample, given: Mapping[str, FloatArray]) -> _Columns:
    own: dict[str, NDArray[Any]] = {
        "loss_mask_L": sample.loss_mask_L,
        "behavior_logprobs_L": sample.behavior_logprobs_L,
        "versions_L": sample.versions_L,
        "advantages_L": sample.advantages_L,
    }
    shape = sample.token_ids_L.shape
    if len(shape) != 1 or shape[0] < 2:
        raise ValueError(f"{sample.ref}: token_ids_L {shape}; a sample needs 2 tokens, one to read and one to predict")
    for name, array in {**own, **given}.items():
        if array.shape != shape:
            raise ValueError(f"{sample.ref}: {name} {array.shape} is not aligned to token_ids_L {shape}")
    if sample.loss_mask_L[0]:
        raise ValueError(f"{sample.ref}: loss_mask_L trains the first token, which no position predicts")
    return _Columns(
        inputs=sample.token_ids_L[:-1],
        labels=sample.token_ids_L[1:],
        loss_mask=sample.loss_mask_L[1:],
        token_weights=given["token_weights"][1:],
        behavior_logprobs=sample.behavior_logprobs_L[1:],
        old_logprobs=given["old_logprobs"][1:],
        reference_logprobs=given["reference_logprobs"][1:]
        if "reference_logprobs" in given
        else np.empty(0, np.float32),
        advantages=sample.advantages_L[1:],
    )


def make_filler(token_id: int, *, with_reference: bool) -> Microbatch:
    """A micro-batch of one position that trains nothing: it runs like any other and adds nothing."""
    zero = np.zeros(1, np.float32)
    column = _Columns(
        inputs=np.array([token_id]),
        labels=np.array([token_id]),
        loss_mask=np.array([False]),
        token_weights=zero,
        behavior_logprobs=zero,
        old_logprobs=zero,
        reference_logprobs=zero if with_reference else np.empty(0, np.float32),
        advantages=zero,
    )
    return _microbatch({FILLER_SAMPLE: column})


def _microbatch(columns: Mapping[int, _Columns]) -> Microbatch:
    lengths = [len(column.labels) for column in columns.values()]
    rows = columns.values()
    return Microbatch(
        input_ids_T=_ints(row.inputs for row in rows),
        labels_T=_ints(row.labels for row in rows),
        positions_T=_ints(np.arange(length) for length in lengths),
        cu_seqlens_S1=np.cumsum([0, *lengths], dtype=np.int32),
        sample_ids_T=np.repeat(np.array(list(columns), np.int32), lengths),
        loss_mask_T=_bools(row.loss_mask for row in rows),
        token_weights_T=_floats(row.token_weights for row in rows),
        behavior_logprobs_T=_floats(row.behavior_logprobs for row in rows),
        old_logprobs_T=_scores(row.old_logprobs for row in rows),
        reference_logprobs_T=_scores(row.reference_logprobs for row in rows),
        advantages_T=_floats(row.advantages for row in rows),
    )


def _joined(arrays: Iterable[NDArray[Any]], dtype: DTypeLike) -> NDArray[Any]:
    return np.concatenate(list(arrays)).astype(dtype, copy=False)


def _ints(arrays: Iterable[NDArray[Any]]) -> IntArray:
    return _joined(arrays, np.int32)


def _floats(arrays: Iterable[NDArray[Any]]) -> FloatArray:
    return _joined(arrays, np.float32)


def _scores(arrays: Iterable[NDArray[Any]]) -> FloatArray:
    """float32, or float64 where a model in float64 made them: a reference run is compared at 1e-12."""
    rows = list(arrays)
    return _joined(rows, np.float64 if any(row.dtype == np.float64 for row in rows) else np.float32)


def _bools(arrays: Iterable[NDArray[Any]]) -> BoolArray:
    return _joined(arrays, np.bool_)
