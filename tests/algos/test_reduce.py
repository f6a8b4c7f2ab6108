import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.algos.reduce import AGGREGATIONS, token_weights
from surefoot.types.errors import ConfigError, UsageError

LENGTH = 4


def weights(mask: list[bool], samples: list[int], rollouts: list[int], aggregation: str) -> list[float]:
    columns = torch.tensor(mask, dtype=torch.bool), torch.tensor(samples), torch.tensor(rollouts)
    return token_weights(*columns, aggregation=aggregation, constant_length=LENGTH).tolist()


def reference(mask: list[bool], rollouts: list[int], aggregation: str) -> list[float]:
    """Each trainable token's share, written out rollout by rollout."""
    counts = {r: sum(m for m, other in zip(mask, rollouts, strict=True) if other == r) for r in set(rollouts)}
    used = sum(count > 0 for count in counts.values())

    def share(rollout: int) -> float:
        if aggregation == "token_mean":
            return 1 / sum(mask)
        return 1 / (used * (counts[rollout] if aggregation == "sample_mean" else LENGTH))

    return [share(r) if m else 0.0 for m, r in zip(mask, rollouts, strict=True)]


def test_token_mean_over_every_cut_equals_the_whole() -> None:
    terms_T = torch.tensor([3.0, -1.0, 4.0, 1.0, -5.0, 9.0, 2.0, 6.0], dtype=torch.float64)
    samples = [0, 0, 0, 1, 1, 1, 1, 1]  # 3 and 5 tokens
    weights_T = torch.tensor(weights([True] * 8, samples, samples, "token_mean"), dtype=torch.float64)
    for size in range(8):
        for cuts in itertools.combinations(range(1, 8), size):
            pieces = zip((0, *cuts), (*cuts, 8), strict=True)
            total = sum(float((weights_T[a:b] * terms_T[a:b]).sum()) for a, b in pieces)
            assert total == pytest.approx(terms_T.mean().item(), rel=1e-12)


def test_samples_fanned_out_of_one_rollout_share_its_denominator() -> None:
    # rollout 0 is samples 0 and 1 (3 tokens), rollout 1 is sample 2 (1 token)
    got = weights([True] * 4, [0, 1, 1, 2], [0, 0, 0, 1], "sample_mean")
    assert got == pytest.approx([1 / 6, 1 / 6, 1 / 6, 1 / 2], rel=1e-15)


@pytest.mark.parametrize("aggregation", sorted(AGGREGATIONS))
def test_a_fully_masked_sample_adds_no_phantom(aggregation: str) -> None:
    mask, samples = [True, True, True], [0, 0, 1]
    alone = weights(mask, samples, samples, aggregation)
    masked = weights([*mask, False, False], [*samples, 2, 2], [*samples, 2, 2], aggregation)
    assert masked == [*alone, 0.0, 0.0]


@pytest.mark.parametrize("aggregation", sorted(AGGREGATIONS))
def test_nothing_trainable_gives_zeros(aggregation: str) -> None:
    assert weights([False] * 3, [0, 0, 1], [0, 0, 1], aggregation) == [0.0] * 3
    empty_T = torch.zeros(0, dtype=torch.int64)
    got_T = token_weights(empty_T.bool(), empty_T, empty_T, aggregation=aggregation, constant_length=LENGTH)
    assert got_T.shape == (0,)


tokens = st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=1, max_size=30)


@settings(max_examples=80, deadline=None)
@given(rows=tokens, aggregation=st.sampled_from(sorted(AGGREGATIONS)))
def test_matches_the_definition_in_any_order(rows: list[tuple[bool, int]], aggregation: str) -> None:
    mask, samples = [m for m, _ in rows], [s * 10 for _, s in rows]
    rollouts = [-(s // 20) for s in samples]  # two samples a rollout
    got = weights(mask, samples, rollouts, aggregation)
    assert got == pytest.approx(reference(mask, rollouts, aggregation), rel=1e-15)
    if any(mask) and aggregation != "constant":
        assert math.fsum(got) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("aggregation", sorted(AGGREGATIONS))
def test_weights_are_float64(aggregation: str) -> None:
    ids_T = torch.tensor([0, 1], dtype=torch.int32)
    got_T = token_weights(ids_T >= 0, ids_T, ids_T, aggregation=aggregation, constant_length=LENGTH)
    assert got_T.dtype == torch.float64


def test_misuse_is_refused() -> None:
    mask_T, ids_T = torch.ones(2, dtype=torch.bool), torch.tensor([0, 1])
    with pytest.raises(ConfigError, match=r"algo.aggregation: unknown 'token-mean'.*'token_mean'"):
        token_weights(mask_T, ids_T, ids_T, aggregation="token-mean")
    with pytest.raises(ConfigError, match=r"algo.constant_length"):
        token_weights(mask_T, ids_T, ids_T, aggregation="constant")
    with pytest.raises(UsageError, match="loss_mask"):
        token_weights(mask_T.float(), ids_T, ids_T, aggregation="token_mean")
    with pytest.raises(UsageError, match="rollout_ids"):
        token_weights(mask_T, ids_T, ids_T[:1], aggregation="token_mean")
    with pytest.raises(UsageError, match="sample id 3 is in more than one rollout"):
        token_weights(mask_T, torch.tensor([3, 3]), ids_T, aggregation="token_mean")
