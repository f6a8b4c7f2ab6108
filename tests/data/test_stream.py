"""Order and resume. The cases of h1-data-order-resume, https://github.com/NVIDIA-NeMo/RL/pull/3599, in the stream's
terms: 12 prompts, 2 a step, one epoch, stopped at every step; 8 rows, batches of 4, 3 epochs, stopped after 2."""

import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.data import PromptStream
from surefoot.data.mix import Share
from surefoot.data.stream import epoch_order
from surefoot.types.errors import ConfigError, DataError, UsageError
from surefoot.types.rollout import Draw, Message, Prompt

FIRST_RELEASE_ROWS = [3, 4, 0, 1, 2, 4, 0, 1, 3, 2]  # five rows, seed 11
FIRST_RELEASE_IDENTITY = "f527c998491e334eceacf2ef84932707012a68f91d72e27555dd301ff5df5fe6"


def prompts(count: int) -> list[Prompt]:
    return [Prompt(f"p{row}", "", (Message("user", "q"),), {"label": row, "metadata": {}}) for row in range(count)]


def facts(draws: list[Draw]) -> list[tuple[int, int, int, str]]:
    return [(draw.number, draw.epoch, draw.row, draw.prompt.id) for draw in draws]


def drain(stream: PromptStream, batch: int) -> list[list[Draw]]:
    batches = []
    while draws := stream.draw(batch):
        batches.append(draws)
        assert len(batches) < 100, "the stream does not end"
    return batches


@pytest.mark.parametrize("stop", range(7))
def test_h1_stop_after_any_step(stop: int) -> None:
    def make() -> PromptStream:
        return PromptStream(prompts(12), seed=3, shuffle=True, epochs=1)

    unbroken = [facts(draws) for draws in drain(make(), 2)]
    first = make()
    trained = [facts(first.draw(2)) for _ in range(stop)]
    cursor = first.cursor
    first.draw(4)  # in flight ahead when the process is killed
    second = make()
    second.seek(cursor)
    trained += [facts(draws) for draws in drain(second, 2)]
    assert trained == unbroken
    assert len(unbroken) == 6
    assert Counter(row for step in trained for _, _, row, _ in step) == Counter(range(12))


def test_h1_epoch_border() -> None:
    first = PromptStream(prompts(8), seed=0, shuffle=True, epochs=3)
    before = [facts(first.draw(4)) for _ in range(2)]
    second = PromptStream(prompts(8), seed=0, shuffle=True, epochs=3)
    second.seek(first.cursor)
    after = [facts(draws) for draws in drain(second, 4)]
    assert len(before + after) == 6
    assert len(after) == 4
    rows = Counter(row for step in before + after for _, _, row, _ in step)
    assert rows == Counter({row: 3 for row in range(8)})


def test_a_batch_reaches_over_the_border() -> None:
    stream = PromptStream(prompts(3), seed=0, shuffle=False, epochs=2)
    assert [[(draw.epoch, draw.row) for draw in draws] for draws in drain(stream, 4)] == [
        [(0, 0), (0, 1), (0, 2), (1, 0)],
        [(1, 1), (1, 2)],  # the last is short
    ]
    assert stream.draw(4) == []
    assert stream.cursor == stream.total == 6


def test_endless() -> None:
    stream = PromptStream(prompts(3), seed=0, shuffle=True, epochs=0)
    assert stream.total is None
    stream.seek(10**12)
    (draw,) = stream.draw(1)
    assert (draw.number, draw.epoch) == (10**12, 10**12 // 3)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 9),
    epochs=st.integers(1, 4),
    sizes=st.lists(st.integers(0, 7), max_size=12),
    shuffle=st.booleans(),
    seed=st.integers(0, 2**64),
)
def test_any_batches_and_any_restart_give_one_order(
    rows: int, epochs: int, sizes: list[int], shuffle: bool, seed: int
) -> None:
    whole = facts(PromptStream(prompts(rows), seed=seed, shuffle=shuffle, epochs=epochs).draw(rows * epochs + 1))
    assert [number for number, *_ in whole] == list(range(rows * epochs))
    for epoch in range(epochs):
        assert sorted(row for _, e, row, _ in whole if e == epoch) == list(range(rows))
    pieces, cursor = [], 0
    for size in sizes:
        stream = PromptStream(prompts(rows), seed=seed, shuffle=shuffle, epochs=epochs)
        stream.seek(cursor)
        pieces += facts(stream.draw(size))
        cursor = stream.cursor
    assert pieces == whole[: sum(sizes)]


def test_seeking_back_repeats() -> None:
    stream = PromptStream(prompts(5), seed=1, shuffle=True, epochs=0)
    first = facts(stream.draw(12))
    stream.seek(0)
    assert facts(stream.draw(12)) == first


def test_orders_differ_by_seed_and_epoch() -> None:
    orders = {
        tuple(epoch_order(20, seed=seed, epoch=epoch).tolist())
        for seed in (0, 1, 2, 2**32, 3 * 2**32, 1 + 3 * 2**32)  # wider than the words a seed is cut into
        for epoch in (0, 1, 3)
    }
    assert len(orders) == 18


def test_the_order_is_the_same_on_every_machine() -> None:
    # Philox and SeedSequence are promised to be stable; should they change, resumed runs would change their order
    assert epoch_order(8, seed=0, epoch=0).tolist() == [1, 4, 5, 6, 2, 0, 3, 7]
    assert epoch_order(8, seed=0, epoch=1).tolist() == [7, 6, 2, 3, 1, 0, 4, 5]


def test_draws_and_identity_of_one_source_are_those_of_the_first_release() -> None:
    """Kept runs resume by them. What a prompt's payload holds is no part of either."""
    stream = PromptStream(prompts(5), seed=11, shuffle=True, epochs=2)
    assert [draw.row for draw in stream.draw(10)] == FIRST_RELEASE_ROWS
    assert stream.identity == FIRST_RELEASE_IDENTITY
    bare = [Prompt(p.id, p.env, p.messages, {"label": None, "metadata": {}, "origin": "x"}) for p in prompts(5)]
    assert PromptStream(bare, seed=11, shuffle=True, epochs=2).identity == FIRST_RELEASE_IDENTITY


def mixed(*shares: tuple[int, float], epochs: int = 0, seed: int = 5, shuffle: bool = True) -> PromptStream:
    sources = [Share(rows, weight) for rows, weight in shares]
    rows = sum(share.rows for share in sources)
    return PromptStream(prompts(rows), seed=seed, shuffle=shuffle, epochs=epochs, sources=sources)


def test_sources_without_weights_are_one_source() -> None:
    plain, parts = PromptStream(prompts(7), seed=5, shuffle=True, epochs=3), mixed((3, 0.0), (4, 0.0), epochs=3)
    assert parts.identity == plain.identity and parts.total == plain.total == 21
    assert facts(parts.draw(21)) == facts(plain.draw(21))
    assert facts(mixed((7, 2.0), epochs=3).draw(21)) == facts(mixed((7, 0.0), epochs=3).draw(21))  # one alone


def test_two_to_one() -> None:
    """By hand, shares 2/3 and 1/3: draws end by 2, 3, 5, 6 and by 3, 6; what ends first comes first."""
    stream = mixed((3, 2.0), (2, 1.0), shuffle=False)
    drawn = [(draw.epoch, draw.row) for draw in stream.draw(9)]
    assert drawn == [(0, 0), (0, 1), (0, 3), (0, 2), (1, 0), (0, 4), (1, 1), (1, 2), (1, 3)]


def test_each_source_has_an_order_and_epochs_of_its_own() -> None:
    draws = mixed((6, 3.0), (6, 1.0)).draw(48)
    orders = {}
    for first in (0, 6):
        own = [draw for draw in draws if first <= draw.row < first + 6]
        assert len(own) == (36 if first == 0 else 12)
        assert [draw.epoch for draw in own] == [index // 6 for index in range(len(own))]
        for epoch in range(len(own) // 6):
            orders[first, epoch] = tuple(draw.row - first for draw in own[6 * epoch : 6 * epoch + 6])
            assert sorted(orders[first, epoch]) == list(range(6))
    assert len(set(orders.values())) == len(orders)


@settings(max_examples=80, deadline=None)
@given(
    shares=st.lists(st.tuples(st.integers(1, 5), st.sampled_from([0.1, 0.3, 1.0, 2.5, 7.0])), min_size=2, max_size=4),
    epochs=st.integers(1, 3),
    cursor=st.integers(0, 400),
    ahead=st.integers(0, 9),
)
def test_a_mix_ends_when_every_row_was_drawn_and_resumes_anywhere(
    shares: list[tuple[int, float]], epochs: int, cursor: int, ahead: int
) -> None:
    first = mixed(*shares, epochs=epochs)
    assert first.total is not None
    whole = facts(first.draw(first.total + 1))
    assert len(whole) == first.total
    times = Counter(row for _, _, row, _ in whole)
    assert len(times) == sum(rows for rows, _ in shares) and min(times.values()) >= epochs
    slowest = max(epochs * rows / (weight / sum(w for _, w in shares)) for rows, weight in shares)
    assert first.total - 1 < slowest * (1 + 1e-12) and slowest < first.total + 1e-9  # and no later
    cursor %= first.total + 1
    second = mixed(*shares, epochs=epochs)
    second.draw(ahead)
    second.seek(cursor)
    assert facts(second.draw(7)) == whole[cursor : cursor + 7]


def test_seeking_a_million_draws_is_quick() -> None:
    for weights in ([7.0, 3.0], [1234567.0, 7654321.0, 33333.0]):  # the second is rounded to parts of 500,000
        stream = mixed(*[(1000, weight) for weight in weights])
        started = time.process_time()
        stream.seek(999_999)  # no whole number of periods
        stream.draw(1)
        assert time.process_time() - started < 3  # under 0.5 on an idle core; this one may be busy


def test_a_mix_is_named_by_its_shares() -> None:
    same = mixed((3, 0.2), (4, 0.4)).identity
    assert same == mixed((3, 1.0), (4, 2.0)).identity  # the same shares
    others = [mixed((3, 0.0), (4, 0.0)), mixed((3, 2.0), (4, 1.0)), mixed((4, 1.0), (3, 2.0)), mixed((7, 1.0))]
    assert same not in {stream.identity for stream in others}


def test_what_is_no_mix() -> None:
    with pytest.raises(ConfigError, match="each must be above 0"):
        mixed((3, 1.0), (4, 0.0))
    with pytest.raises(DataError, match="no prompts"):
        mixed((3, 1.0), (0, 1.0))
    with pytest.raises(UsageError, match=r"the sources have \[3, 3\] rows, not 7"):
        PromptStream(prompts(7), seed=0, shuffle=True, epochs=0, sources=[Share(3, 1.0), Share(3, 1.0)])


def test_what_cannot_be() -> None:
    with pytest.raises(DataError, match="no prompts"):
        PromptStream([], seed=0, shuffle=False, epochs=1)
    with pytest.raises(UsageError, match="epochs = -1"):
        PromptStream(prompts(1), seed=0, shuffle=False, epochs=-1)
    stream = PromptStream(prompts(4), seed=0, shuffle=False, epochs=2)
    stream.seek(8)
    assert stream.draw(1) == []
    with pytest.raises(DataError, match="cursor 9 is past the 8 draws of 4 rows"):
        stream.seek(9)
    with pytest.raises(UsageError, match="negative"):
        stream.seek(-1)
    with pytest.raises(UsageError, match="cannot draw -1"):
        stream.draw(-1)
    assert stream.cursor == 8
