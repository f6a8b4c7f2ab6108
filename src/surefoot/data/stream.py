"""Prompts in the order they are trained on. One number, the cursor, is the whole state."""

import hashlib
import itertools
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from surefoot.data.mix import Schedule, Share
from surefoot.types.errors import DataError, UsageError
from surefoot.types.rollout import Draw, Prompt


def epoch_order(rows: int, *, seed: int, epoch: int, source: int = 0) -> NDArray[np.int64]:
    """The permutation of `rows` rows for one epoch of a source; a function of its arguments alone.

    Rows are sorted by raw 64-bit Philox numbers: numpy promises those between versions, which it does not for
    `Generator.permutation`.

    >>> epoch_order(5, seed=0, epoch=1).tolist() == epoch_order(5, seed=0, epoch=1).tolist()
    True
    """
    # spawn_key, not [seed, epoch]: a seed of more than 32 bits must not read as another seed and epoch
    key = (epoch, source) if source else (epoch,)
    bits = np.random.Philox(np.random.SeedSequence(seed, spawn_key=key))
    return np.argsort(bits.random_raw(rows), kind="stable")


class _Lane:
    """One source's rows in the order in which they are drawn, epoch after epoch."""

    def __init__(self, source: int, first_row: int, rows: int, *, seed: int, shuffle: bool) -> None:
        self._source, self._first_row, self._rows = source, first_row, rows
        self._seed, self._shuffle = seed, shuffle
        self._ordered_epoch = -1
        self._order = np.arange(rows)

    def at(self, index: int) -> tuple[int, int]:
        """(epoch, row within all prompts) of this source's draw `index`, counted from 0."""
        epoch, place = divmod(index, self._rows)
        if self._shuffle and epoch != self._ordered_epoch:
            self._order = epoch_order(self._rows, seed=self._seed, epoch=epoch, source=self._source)
            self._ordered_epoch = epoch
        return epoch, self._first_row + int(self._order[place])


class PromptStream:
    """Draws prompts epoch after epoch; a batch may reach over the border, so no row is skipped or drawn twice.

    `sources`: what `prompts` are made of, in their order. With weights, each source has its share of the draws, an
    order and epochs of its own (`Draw.epoch`), and the stream ends when the slowest had `epochs`; without, all rows are
    one source. `epochs` = 0 is endless. Raises `DataError` for no prompts, `ConfigError` for weights unfit as shares.
    """

    def __init__(
        self, prompts: Sequence[Prompt], *, seed: int, shuffle: bool, epochs: int, sources: Sequence[Share] = ()
    ) -> None:
        if epochs < 0:
            raise UsageError(f"epochs = {epochs} is negative")
        shares = list(sources) if any(share.weight for share in sources) else [Share(len(prompts), 1.0)]
        if not prompts or not all(share.rows for share in shares):
            raise DataError("there are no prompts to draw from")
        if sum(share.rows for share in shares) != len(prompts):
            raise UsageError(f"the sources have {[share.rows for share in shares]} rows, not {len(prompts)} in all")
        firsts = itertools.accumulate((share.rows for share in shares), initial=0)
        self._prompts = tuple(prompts)
        self._lanes = [
            _Lane(source, first, share.rows, seed=seed, shuffle=shuffle)
            for source, (first, share) in enumerate(zip(firsts, shares, strict=False))
        ]
        self._schedule = Schedule([share.weight for share in shares])
        self._total = self._schedule.draws_until([epochs * share.rows for share in shares]) if epochs else None
        mixed = f" {[(s.rows, w) for s, w in zip(shares, self._schedule.weights, strict=True)]}" if shares[1:] else ""
        self._order_from = f"{seed} {shuffle}{mixed}"
        self._cursor = 0
        self._drawn = [0] * len(shares)  # by source; follows from the cursor

    @cached_property  # each checkpoint asks
    def identity(self) -> str:
        """Digest of what the order of draws comes from: equal streams draw equal prompts at equal cursors."""
        hasher = hashlib.sha256(self._order_from.encode())
        for prompt in self._prompts:
            hasher.update(repr((prompt.id, prompt.messages)).encode())
        return hasher.hexdigest()

    @property
    def cursor(self) -> int:
        """Draws so far, over the whole run; the next draw's number."""
        return self._cursor

    @property
    def total(self) -> int | None:
        """Draws in all epochs; None where the stream is endless."""
        return self._total

    def seek(self, cursor: int) -> None:
        """Go to where `cursor` draws were made. Raises `DataError` where that is past the end."""
        if cursor < 0:
            raise UsageError(f"cursor = {cursor} is negative")
        if self._total is not None and cursor > self._total:
            raise DataError(
                f"cursor {cursor} is past the {self._total} draws of {len(self._prompts)} rows: "
                "the data set or the number of epochs changed"
            )
        self._cursor = cursor
        self._drawn = self._schedule.drawn(cursor)

    def draw(self, count: int) -> list[Draw]:
        """The next `count` draws; fewer at the end of the last epoch, [] after it."""
        if count < 0:
            raise UsageError(f"cannot draw {count} prompts")
        end = self._cursor + count
        if self._total is not None:
            end = min(end, self._total)
        draws = [self._draw(number) for number in range(self._cursor, end)]
        self._cursor = end
        return draws

    def _draw(self, number: int) -> Draw:
        source = self._schedule.source(number)
        epoch, row = self._lanes[source].at(self._drawn[source])
        self._drawn[source] += 1
        return Draw(number=number, epoch=epoch, row=row, prompt=self._prompts[row])
