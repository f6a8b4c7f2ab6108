"""Order and resume. The cases of h1-data-order-resume, https://github.com/NVIDIA-NeMo/RL/pull/3599, in the stream's
terms: 12 prompts, 2 a step, one epoch, stopped at every step; 8 rows, batches of 4, 3 epochs, stopped after 2."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.data import PromptStream
from surefoot.data.stream import epoch_order
from surefoot.types.errors import DataError, UsageError
from surefoot.types.rollout import Draw, Message, Prompt


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
