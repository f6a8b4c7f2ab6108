"""Groups of rollouts as training sequences, and as the arrays an advantage estimator takes.

Letters: N rollouts of all groups, L tokens of a sample, C tokens of a completion, P prompt tokens new to a part.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.types.errors import EngineError, UsageError
from surefoot.types.rollout import (
    BoolArray,
    FloatArray,
    Generation,
    Group,
    IntArray,
    Rollout,
    Sample,
    SampleRef,
    Turn,
)

UNTRAINED_VERSION = -1
Key = tuple[int, int]
"""(group id, index of the rollout in it)."""


def group_rewards(groups: Sequence[Group]) -> tuple[NDArray[np.float64], NDArray[np.int64], BoolArray, list[Key]]:
    """(rewards_N, group_ids_N, valid_N, keys_N) of every rollout, in order; an invalid one's reward is NaN.

    Raises `UsageError` where two groups share an id, or a reward is not finite though its rollout is not invalid.
    """
    _refuse_repeated_ids(groups)
    rows = [((group.id, index), rollout) for group in groups for index, rollout in enumerate(group.rollouts)]
    for (group_id, index), rollout in rows:
        if not rollout.invalid and not np.isfinite(rollout.reward):
            raise UsageError(f"group {group_id}, rollout {index}: reward {rollout.reward}, but no reason in `invalid`")
    rewards_N = np.array([np.nan if rollout.invalid else rollout.reward for _, rollout in rows], dtype=np.float64)
    group_ids_N = np.array([group_id for (group_id, _), _ in rows], dtype=np.int64)
    valid_N = np.array([not rollout.invalid for _, rollout in rows], dtype=np.bool_)
    return rewards_N, group_ids_N, valid_N, [key for key, _ in rows]


def samples_from_groups(groups: Sequence[Group], advantages: Mapping[Key, float]) -> list[Sample]:
    """The samples of every valid rollout, in order; every sampled token is in exactly one, with the id it had.

    Turns are joined while a turn's prompt begins, id for id, with the previous prompt and generation; where it does
    not, a new part begins. Only sampled tokens train; the others carry log-prob 0, version -1 and advantage 0.
    Two turns [1 2]->[3] and [1 2 3 4]->[5] make one sample 1 2 3 4 5, trained on 3 and 5.
    Raises `UsageError` for a rollout without an advantage or a turn without prompt tokens, `EngineError` for a
    generation whose arrays differ in length.
    """
    _refuse_repeated_ids(groups)
    samples: list[Sample] = []
    for group in groups:
        for index, rollout in enumerate(group.rollouts):
            if rollout.invalid:  # its reason is in the record, and its fate in the ledger
                continue
            if (group.id, index) not in advantages:
                raise UsageError(f"group {group.id}, rollout {index}: no advantage")
            samples += _rollout_samples(group.id, index, rollout, advantages[group.id, index])
    return samples


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """Tokens in a row that all train or all do not."""

    token_ids: IntArray
    trained: bool
    logprobs: FloatArray
    versions: IntArray


def _rollout_samples(group: int, index: int, rollout: Rollout, advantage: float) -> list[Sample]:
    where = f"group {group}, rollout {index}"
    if not rollout.turns:
        raise UsageError(f"{where}: no turns, but no reason in `invalid`")
    for number, turn in enumerate(rollout.turns):
        _check_turn(turn, f"{where}, turn {number}")
    parts = enumerate(_parts(rollout.turns))
    return [_sample(SampleRef(group, index, part), pieces, advantage) for part, pieces in parts]


def _parts(turns: Sequence[Turn]) -> Iterator[list[_Piece]]:
    pieces: list[_Piece] = []
    seen_L = np.zeros(0, dtype=np.int32)
    for turn in turns:
        prompt_L = turn.prompt_ids_L
        if pieces and not np.array_equal(prompt_L[: len(seen_L)], seen_L):
            yield pieces
            pieces, seen_L = [], seen_L[:0]
        pieces += [_context(prompt_L[len(seen_L) :]), _sampled(turn.generation)]
        seen_L = np.concatenate([prompt_L, turn.generation.token_ids_C])
    yield pieces


def _context(token_ids_P: IntArray) -> _Piece:
    logprobs_P = np.zeros(len(token_ids_P), dtype=np.float32)
    versions_P = np.full(len(token_ids_P), UNTRAINED_VERSION, dtype=np.int32)
    return _Piece(token_ids_P, trained=False, logprobs=logprobs_P, versions=versions_P)


def _sampled(generation: Generation) -> _Piece:
    return _Piece(generation.token_ids_C, trained=True, logprobs=generation.logprobs_C, versions=generation.versions_C)


def _sample(ref: SampleRef, pieces: Sequence[_Piece], advantage: float) -> Sample:
    loss_mask_L = np.concatenate([np.full(len(piece.token_ids), piece.trained) for piece in pieces])
    return Sample(
        ref=ref,
        token_ids_L=np.concatenate([piece.token_ids for piece in pieces]).astype(np.int32),
        loss_mask_L=loss_mask_L,
        behavior_logprobs_L=np.concatenate([piece.logprobs for piece in pieces]).astype(np.float32),
        versions_L=np.concatenate([piece.versions for piece in pieces]).astype(np.int32),
        advantages_L=np.where(loss_mask_L, advantage, 0.0).astype(np.float32),
    )


def _check_turn(turn: Turn, where: str) -> None:
    if not len(turn.prompt_ids_L):
        raise UsageError(f"{where}: no prompt tokens, so nothing predicts the first sampled one")
    generation = turn.generation
    lengths = (len(generation.token_ids_C), len(generation.logprobs_C), len(generation.versions_C))
    if len(set(lengths)) != 1:
        raise EngineError(f"{where}: {lengths[0]} tokens, {lengths[1]} log-probs, {lengths[2]} versions")


def _refuse_repeated_ids(groups: Sequence[Group]) -> None:
    seen: set[int] = set()
    for group in groups:
        if group.id in seen:
            raise UsageError(f"two groups have the id {group.id}")
        seen.add(group.id)
