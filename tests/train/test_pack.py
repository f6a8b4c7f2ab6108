"""Packing: the shift by one, fillers, refusals, and the way back to samples."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.train.pack import FILLER_SAMPLE, pack, unpack
from surefoot.types.rollout import FloatArray, Sample, SampleRef
from surefoot.types.train import Batch, Microbatch

COSTS = {"linear_cost": 1.0, "quadratic_cost": 1 / 12288}

COLUMNS = ("token_weights_T", "behavior_logprobs_T", "old_logprobs_T", "reference_logprobs_T", "advantages_T")


def make_sample(number: int, length: int, prompt: int = 1) -> Sample:
    """Every entry of every column is different, so that a shift or a swap cannot go unseen."""
    base = np.arange(length) + 1000 * number
    return Sample(
        ref=SampleRef(number, 0, 0),
        token_ids_L=(base + 5).astype(np.int32),
        loss_mask_L=np.arange(length) >= prompt,
        behavior_logprobs_L=(-0.25 * base).astype(np.float32),
        versions_L=np.where(np.arange(length) >= prompt, number + 3, -1).astype(np.int32),
        advantages_L=(0.5 * base).astype(np.float32),
    )


def column(samples: list[Sample], factor: float) -> list[FloatArray]:
    return [(factor * s.token_ids_L).astype(np.float32) for s in samples]


def pack_all(samples: list[Sample], *, ranks: int = 1, max_tokens: int = 16, reference: bool = True) -> Batch:
    return pack(
        samples,
        **COSTS,
        ranks=ranks,
        max_tokens=max_tokens,
        token_weights=column(samples, 2.0),
        old_logprobs=column(samples, -3.0),
        reference_logprobs=column(samples, -7.0) if reference else None,
        old_source="trainer",
    )


def lists(microbatch: Microbatch) -> dict[str, list[float]]:
    return {field.name: getattr(microbatch, field.name).tolist() for field in fields(microbatch)}


def test_two_samples_in_one_micro_batch() -> None:
    samples = [make_sample(0, 3), make_sample(1, 4, prompt=2)]
    batch = pack_all(samples)
    assert lists(batch.microbatches_RM[0][0]) == {
        "input_ids_T": [5, 6, 1005, 1006, 1007],
        "labels_T": [6, 7, 1006, 1007, 1008],
        "positions_T": [0, 1, 0, 1, 2],
        "cu_seqlens_S1": [0, 2, 5],
        "sample_ids_T": [0, 0, 1, 1, 1],
        "loss_mask_T": [True, True, False, True, True],
        "token_weights_T": [12, 14, 2012, 2014, 2016],
        "behavior_logprobs_T": [-0.25, -0.5, -250.25, -250.5, -250.75],
        "old_logprobs_T": [-18, -21, -3018, -3021, -3024],
        "reference_logprobs_T": [-42, -49, -7042, -7049, -7056],
        "advantages_T": [0.5, 1.0, 500.5, 501.0, 501.5],
    }
    assert (batch.num_tokens, batch.num_samples, batch.old_source) == (4, 2, "trainer")
    assert batch.refs == (samples[0].ref, samples[1].ref)
    assert (batch.min_version, batch.max_version) == (3, 4)  # of trainable tokens: the prompts' -1 does not count


def test_dtypes_are_those_of_the_record() -> None:
    batch = pack_all([make_sample(0, 3)], ranks=2)
    for row in batch.microbatches_RM:
        for name in ("input_ids_T", "labels_T", "positions_T", "cu_seqlens_S1", "sample_ids_T"):
            assert getattr(row[0], name).dtype == np.int32
        assert row[0].loss_mask_T.dtype == np.bool_
        assert {getattr(row[0], name).dtype for name in COLUMNS} == {np.dtype(np.float32)}


def test_log_probs_of_a_float64_model_stay_float64() -> None:
    sample = make_sample(0, 3)
    wide = [np.array([0.0, -1 / 3, -2 / 3])]
    batch = pack(
        [sample],
        **COSTS,
        ranks=1,
        max_tokens=8,
        token_weights=[np.ones(3, np.float32)],
        old_logprobs=wide,
        reference_logprobs=wide,
        old_source="trainer",
    )
    microbatch = batch.microbatches_RM[0][0]
    assert microbatch.old_logprobs_T.tolist() == microbatch.reference_logprobs_T.tolist() == [-1 / 3, -2 / 3]


@pytest.mark.parametrize("reference", [True, False])
def test_a_rank_without_samples_runs_fillers(reference: bool) -> None:
    batch = pack_all([make_sample(0, 9), make_sample(1, 9)], ranks=3, max_tokens=8, reference=reference)
    assert [len(row) for row in batch.microbatches_RM] == [1, 1, 1]
    assert lists(batch.microbatches_RM[2][0]) == {
        "input_ids_T": [5],
        "labels_T": [5],
        "positions_T": [0],
        "cu_seqlens_S1": [0, 1],
        "sample_ids_T": [FILLER_SAMPLE],
        "loss_mask_T": [False],
        "token_weights_T": [0],
        "behavior_logprobs_T": [0],
        "old_logprobs_T": [0],
        "reference_logprobs_T": [0] if reference else [],
        "advantages_T": [0],
    }
    assert batch.num_tokens == 16


def test_without_a_reference_its_column_is_empty() -> None:
    batch = pack_all([make_sample(0, 3)], reference=False)
    assert batch.microbatches_RM[0][0].reference_logprobs_T.shape == (0,)


def test_no_samples_at_all_is_a_batch_of_fillers() -> None:
    batch = pack_all([], ranks=2)
    assert [[m.sample_ids_T.tolist() for m in row] for row in batch.microbatches_RM] == [[[-1]], [[-1]]]
    assert (batch.num_tokens, batch.num_samples, batch.refs) == (0, 0, ())
    assert (batch.min_version, batch.max_version) == (-1, -1)


def test_a_sample_takes_one_position_less_than_it_has_tokens() -> None:
    assert pack_all([make_sample(0, 9)], max_tokens=8).num_samples == 1
    with pytest.raises(ValueError, match=r"group=7.*: 10 tokens take 9 positions; train.max_tokens is 8"):
        pack_all([make_sample(0, 9), make_sample(7, 10)], max_tokens=8)


@pytest.mark.parametrize("length", [0, 1])
def test_a_sample_without_a_label_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match=r"group=4.*needs 2 tokens"):
        pack_all([make_sample(4, length)])


def test_a_trained_first_token_is_refused_not_dropped() -> None:
    with pytest.raises(ValueError, match=r"group=4.*first token"):
        pack_all([make_sample(4, 3, prompt=0)])


@pytest.mark.parametrize("name", ["loss_mask_L", "behavior_logprobs_L", "versions_L", "advantages_L"])
def test_a_sample_out_of_line_is_refused(name: str) -> None:
    sample = make_sample(4, 3)
    with pytest.raises(ValueError, match=rf"group=4.*{name} \(2,\) is not aligned to token_ids_L \(3,\)"):
        pack_all([replace(sample, **{name: getattr(sample, name)[1:]})])


@pytest.mark.parametrize("name", ["token_weights", "old_logprobs", "reference_logprobs"])
def test_a_given_column_out_of_line_is_refused(name: str) -> None:
    samples = [make_sample(0, 3), make_sample(4, 3)]
    given = {key: column(samples, 1.0) for key in ("token_weights", "old_logprobs", "reference_logprobs")}
    short = given | {name: [given[name][0], given[name][1][1:]]}
    with pytest.raises(ValueError, match=rf"group=4.*{name} \(2,\)"):
        pack(samples, ranks=1, max_tokens=8, old_source="sampler", **COSTS, **short)
    with pytest.raises(ValueError, match=rf"{name}: 1 arrays for 2 samples"):
        pack(samples, ranks=1, max_tokens=8, old_source="sampler", **COSTS, **(given | {name: given[name][:1]}))


@given(lengths=st.lists(st.integers(2, 17), min_size=1, max_size=25), ranks=st.integers(1, 4))
@settings(max_examples=80, deadline=None)
def test_every_column_comes_back_to_its_sample(lengths: list[int], ranks: int) -> None:
    samples = [make_sample(number, length) for number, length in enumerate(lengths)]
    batch = pack_all(samples, ranks=ranks)
    assert len({len(row) for row in batch.microbatches_RM}) == 1
    flat = [microbatch for row in batch.microbatches_RM for microbatch in row]
    sources = {
        "input_ids_T": [s.token_ids_L[:-1] for s in samples],
        "labels_T": [s.token_ids_L[1:] for s in samples],
        "positions_T": [np.arange(len(s.token_ids_L) - 1) for s in samples],
        "sample_ids_T": [np.full(len(s.token_ids_L) - 1, i) for i, s in enumerate(samples)],
        "loss_mask_T": [s.loss_mask_L[1:] for s in samples],
        "behavior_logprobs_T": [s.behavior_logprobs_L[1:] for s in samples],
        "advantages_T": [s.advantages_L[1:] for s in samples],
        "token_weights_T": [a[1:] for a in column(samples, 2.0)],
        "old_logprobs_T": [a[1:] for a in column(samples, -3.0)],
        "reference_logprobs_T": [a[1:] for a in column(samples, -7.0)],
    }
    for name, expected in sources.items():
        got = unpack(flat, [getattr(m, name) for m in flat])
        assert sorted(got) == list(range(len(samples))), name
        for index, values in enumerate(expected):
            np.testing.assert_array_equal(got[index], values, err_msg=name)
    for microbatch in flat:
        assert 1 <= len(microbatch.input_ids_T) <= 16
        assert microbatch.cu_seqlens_S1[0] == 0 and microbatch.cu_seqlens_S1[-1] == len(microbatch.input_ids_T)


def test_unpack_one_rank_gives_that_rank_alone() -> None:
    batch = pack_all([make_sample(0, 9), make_sample(1, 4)], ranks=2)
    row = batch.microbatches_RM[1]
    assert {i: v.tolist() for i, v in unpack(row, [np.array([0.1, 0.2, 0.3])]).items()} == {1: [0.1, 0.2, 0.3]}


def test_unpack_refuses_what_does_not_fit() -> None:
    row = pack_all([make_sample(0, 4)]).microbatches_RM[0]
    values = np.zeros(3)
    with pytest.raises(ValueError, match="1 micro-batches but 2 arrays"):
        unpack(row, [values, values])
    with pytest.raises(ValueError, match=r"micro-batch 0: values \(4,\), positions \(3,\)"):
        unpack(row, [np.zeros(4)])
    with pytest.raises(ValueError, match="micro-batch 1: sample 0 appears twice"):
        unpack([*row, *row], [values, values])
