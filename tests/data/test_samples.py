import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.data import group_rewards, samples_from_groups
from surefoot.types.errors import EngineError, UsageError
from surefoot.types.rollout import Generation, Group, Message, Prompt, Rollout, SampleRef, Turn

PROMPT = Prompt("p", "", (Message("user", "q"),), {"label": None, "metadata": {}})


def turn(prompt: Sequence[int], ids: Sequence[int], version: int = 0) -> Turn:
    generation = Generation(
        token_ids_C=np.array(ids, dtype=np.int32),
        logprobs_C=-np.arange(1, len(ids) + 1, dtype=np.float32) - version,
        versions_C=np.full(len(ids), version, dtype=np.int32),
        stop="eos",
    )
    return Turn(np.array(prompt, dtype=np.int32), generation, replies=(), reward=0.0)


def rollout(*turns: Turn, reward: float = 1.0, invalid: str = "") -> Rollout:
    return Rollout(
        turns=turns,
        stop="eos",
        response="",
        seed=0,
        reward=math.nan if invalid else reward,
        reward_parts={},
        answers={},
        invalid=invalid,
    )


def group(number: int, *rollouts: Rollout) -> Group:
    return Group(number, PROMPT, rollouts)


def test_a_single_turn() -> None:
    (sample,) = samples_from_groups([group(7, rollout(turn([1, 2], [5, 6, 3], version=4)))], {(7, 0): -0.5})
    assert sample.ref == SampleRef(7, 0, 0)
    assert sample.token_ids_L.tolist() == [1, 2, 5, 6, 3]
    assert sample.loss_mask_L.tolist() == [False, False, True, True, True]
    assert sample.behavior_logprobs_L.tolist() == [0, 0, -5, -6, -7]
    assert sample.versions_L.tolist() == [-1, -1, 4, 4, 4]
    assert sample.advantages_L.tolist() == [0, 0, -0.5, -0.5, -0.5]
    dtypes = [sample.token_ids_L, sample.loss_mask_L, sample.behavior_logprobs_L, sample.versions_L]
    assert [array.dtype for array in dtypes] == [np.int32, np.bool_, np.float32, np.int32]
    assert sample.advantages_L.dtype == np.float32


def test_turns_that_extend_are_joined() -> None:
    turns = (turn([1, 2], [3], version=0), turn([1, 2, 3, 4], [5, 6], version=1), turn([1, 2, 3, 4, 5, 6], [7]))
    (sample,) = samples_from_groups([group(0, rollout(*turns))], {(0, 0): 1.0})
    assert sample.token_ids_L.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert sample.loss_mask_L.tolist() == [False, False, True, False, True, True, True]
    assert sample.behavior_logprobs_L.tolist() == [0, 0, -1, 0, -2, -3, -1]
    assert sample.versions_L.tolist() == [-1, -1, 0, -1, 1, 1, 0]
    assert sample.advantages_L.tolist() == [0, 0, 1, 0, 1, 1, 1]


@pytest.mark.parametrize(
    "second",
    [
        [9, 2, 3, 4],  # another beginning
        [1, 2, 8, 4],  # the answer was encoded anew
        [1, 2],  # shorter than what was seen
    ],
)
def test_turns_that_do_not_extend_become_parts(second: list[int]) -> None:
    turns = (turn([1, 2], [3]), turn(second, [5]), turn([*second, 5, 6], [7]))
    samples = samples_from_groups([group(2, rollout(*turns))], {(2, 0): 1.0})
    assert [sample.ref for sample in samples] == [SampleRef(2, 0, 0), SampleRef(2, 0, 1)]
    assert samples[0].token_ids_L.tolist() == [1, 2, 3]
    assert samples[1].token_ids_L.tolist() == [*second, 5, 6, 7]
    assert np.flatnonzero(samples[1].loss_mask_L).tolist() == [len(second), len(second) + 2]


def test_invalid_rollouts_make_no_samples_and_need_no_advantage() -> None:
    groups = [group(1, rollout(turn([1], [2]), invalid="reward: nan"), rollout(turn([1], [3])))]
    (sample,) = samples_from_groups(groups, {(1, 1): 2.0})
    assert sample.ref == SampleRef(1, 1, 0)


def test_an_empty_generation_keeps_its_sample() -> None:
    (sample,) = samples_from_groups([group(0, rollout(turn([1, 2], [])))], {(0, 0): 1.0})
    assert sample.token_ids_L.tolist() == [1, 2]
    assert not sample.loss_mask_L.any()
    assert sample.advantages_L.tolist() == [0, 0]


@pytest.mark.parametrize("advantage", [math.nan, math.inf])
def test_a_nonfinite_advantage_is_evidence_and_stays_off_the_prompt(advantage: float) -> None:
    (sample,) = samples_from_groups([group(0, rollout(turn([1], [2])))], {(0, 0): advantage})
    assert repr(sample.advantages_L.tolist()) == repr([0.0, advantage])


def test_records_are_not_changed() -> None:
    one = turn([1, 2], [3])
    sample = samples_from_groups([group(0, rollout(one))], {(0, 0): 1.0})[0]
    sample.token_ids_L[:] = 0
    assert one.prompt_ids_L.tolist() == [1, 2]
    assert one.generation.token_ids_C.tolist() == [3]


def test_broken_records_are_named() -> None:
    good = turn([1], [2, 3])
    short = Generation(
        good.generation.token_ids_C, good.generation.logprobs_C[:1], good.generation.versions_C, stop="eos"
    )
    bad = Turn(good.prompt_ids_L, short, (), 0.0)
    with pytest.raises(EngineError, match="group 3, rollout 0, turn 1: 2 tokens, 1 log-probs, 2 versions"):
        samples_from_groups([group(3, rollout(good, bad))], {(3, 0): 1.0})
    with pytest.raises(UsageError, match="group 3, rollout 1: no advantage"):
        samples_from_groups([group(3, rollout(good), rollout(good))], {(3, 0): 1.0})
    with pytest.raises(UsageError, match="no prompt tokens"):
        samples_from_groups([group(3, rollout(turn([], [1])))], {(3, 0): 1.0})
    with pytest.raises(UsageError, match="no turns"):
        samples_from_groups([group(3, rollout())], {(3, 0): 1.0})
    with pytest.raises(UsageError, match="two groups have the id 3"):
        samples_from_groups([group(3), group(3)], {})


def test_group_rewards() -> None:
    one = turn([1], [2])
    groups = [
        group(4, rollout(one, reward=1.0), rollout(one, invalid="reward: x")),
        group(2, rollout(one, reward=0.25)),
        group(9),
    ]
    rewards_N, group_ids_N, valid_N, keys = group_rewards(groups)
    assert repr(rewards_N.tolist()) == repr([1.0, math.nan, 0.25])
    assert group_ids_N.tolist() == [4, 4, 2]
    assert valid_N.tolist() == [True, False, True]
    assert keys == [(4, 0), (4, 1), (2, 0)]
    assert [array.dtype for array in (rewards_N, group_ids_N, valid_N)] == [np.float64, np.int64, np.bool_]


def test_group_rewards_of_nothing() -> None:
    rewards_N, group_ids_N, valid_N, keys = group_rewards([])
    assert (rewards_N.shape, group_ids_N.shape, valid_N.shape, keys) == ((0,), (0,), (0,), [])
    assert (rewards_N.dtype, group_ids_N.dtype, valid_N.dtype) == (np.float64, np.int64, np.bool_)


def test_group_rewards_refuses_what_would_mix_or_hide() -> None:
    one = turn([1], [2])
    with pytest.raises(UsageError, match="two groups have the id 4"):
        group_rewards([group(4, rollout(one)), group(4, rollout(one))])
    with pytest.raises(UsageError, match="group 4, rollout 0: reward nan"):
        group_rewards([group(4, rollout(one, reward=math.nan))])


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_every_sampled_token_trains_exactly_once(data: st.DataObject) -> None:
    """Random episodes, each turn going on from the last or not; ids, log-probs and order survive."""
    ids = st.lists(st.integers(0, 2), max_size=4)
    turns: list[Turn] = []
    seen: list[int] = []
    for version in range(data.draw(st.integers(1, 5))):
        fresh = data.draw(ids.filter(bool)) if not seen or data.draw(st.booleans()) else seen + data.draw(ids)
        turns.append(turn(fresh, data.draw(ids), version))
        seen = [*fresh, *turns[-1].generation.token_ids_C.tolist()]
    samples = samples_from_groups([group(0, rollout(*turns))], {(0, 0): 1.0})
    trained = [
        (sample.token_ids_L[i], sample.behavior_logprobs_L[i], sample.versions_L[i])
        for sample in samples
        for i in np.flatnonzero(sample.loss_mask_L)
    ]
    parts = [one.generation for one in turns]
    assert trained == [
        row for part in parts for row in zip(part.token_ids_C, part.logprobs_C, part.versions_C, strict=True)
    ]
    assert [sample.ref.part for sample in samples] == list(range(len(samples)))
    assert samples[-1].token_ids_L.tolist() == seen
