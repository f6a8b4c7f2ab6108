"""Mini-batches: by order, even, and never through a rollout."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.train.minibatch import split
from surefoot.types.rollout import Sample, SampleRef


def make_samples(refs: list[tuple[int, int, int]]) -> list[Sample]:
    ids, reals = np.array([3, 4], np.int32), np.zeros(2, np.float32)
    return [Sample(SampleRef(*ref), ids, np.array([False, True]), reals, np.zeros(2, np.int32), reals) for ref in refs]


def refs(parts: list[list[Sample]]) -> list[list[tuple[int, int, int]]]:
    return [[(s.ref.group, s.ref.rollout, s.ref.part) for s in part] for part in parts]


def test_five_rollouts_in_two() -> None:
    given_refs = [(0, 0, 0), (0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 1, 0), (1, 1, 1), (1, 1, 2), (2, 0, 0)]
    assert refs(split(make_samples(given_refs), 2)) == [given_refs[:4], given_refs[4:]]


def test_a_scattered_rollout_stays_whole() -> None:
    assert refs(split(make_samples([(0, 0, 0), (0, 1, 0), (0, 0, 1)]), 2)) == [[(0, 0, 0), (0, 0, 1)], [(0, 1, 0)]]


@pytest.mark.parametrize(("rollouts", "n"), [(3, 4), (3, 0), (0, 1), (3, -1)])
def test_more_mini_batches_than_rollouts_is_an_error(rollouts: int, n: int) -> None:
    with pytest.raises(ValueError, match=rf"train.updates_per_rollout: cannot cut {rollouts} rollouts into {n}"):
        split(make_samples([(0, number, 0) for number in range(rollouts)]), n)


@given(parts=st.lists(st.integers(1, 4), min_size=1, max_size=30), data=st.data())
@settings(max_examples=80, deadline=None)
def test_any_cut_keeps_order_and_rollouts(parts: list[int], data: st.DataObject) -> None:
    n = data.draw(st.integers(1, len(parts)))
    given_refs = [(number // 4, number % 4, part) for number, count in enumerate(parts) for part in range(count)]
    cut = refs(split(make_samples(given_refs), n))
    assert [ref for part in cut for ref in part] == given_refs
    sizes = [len({ref[:2] for ref in part}) for part in cut]
    assert len(sizes) == n and sum(sizes) == len(parts) and max(sizes) - min(sizes) <= 1
