"""Prompts in the order they are trained on. One number, the cursor, is the whole state."""

import hashlib
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from surefoot.types.errors import DataError, UsageError
from surefoot.types.rollout import Draw, Prompt


def epoch_order(rows: int, *, seed: int, epoch: int) -> NDArray[np.int64]:
    """The permutation of `rows` rows for one epoch; a function of its arguments alone.

    Rows are sorted by raw 64-bit Philox numbers: numpy promises those between versions, which it does not for
    `Generator.permutation`.

    >>> epoch_order(5, seed=0, epoch=1).tolist() == epoch_order(5, seed=0, epoch=1).tolist()
    True
    """
    # spawn_key, not [seed, epoch]: a seed of more than 32 bits must not read as another seed and epoch
    bits = np.random.Philox(np.random.SeedSequence(seed, spawn_key=(epoch,)))
    return np.argsort(bits.random_raw(rows), kind="stable")


class PromptStream:
    """Draws prompts epoch after epoch; a batch may reach over the border, so no row is skipped or drawn twice.

    `epochs` = 0 is endless. Raises `DataError` for no prompts.
    """

    def __init__(self, prompts: Sequence[Prompt], *, seed: int, shuffle: bool, epochs: int) -> None:
        if not prompts:
            raise DataError("there are no prompts to draw from")
        if epochs < 0:
            raise UsageError(f"epochs = {epochs} is negative")
        self._prompts = tuple(prompts)
        self._seed = seed
        self._shuffle = shuffle
        self._total = epochs * len(prompts) if epochs else None
        self._cursor = 0
        self._ordered_epoch = -1
        self._order = np.arange(len(prompts))

    @cached_property  # each checkpoint asks
    def identity(self) -> str:
        """Digest of what the order of draws comes from: equal streams draw equal prompts at equal cursors."""
        hasher = hashlib.sha256(f"{self._seed} {self._shuffle}".encode())
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
        epoch, place = divmod(number, len(self._prompts))
        if self._shuffle and epoch != self._ordered_epoch:
            self._order = epoch_order(len(self._prompts), seed=self._seed, epoch=epoch)
            self._ordered_epoch = epoch
        row = int(self._order[place])
        return Draw(number=number, epoch=epoch, row=row, prompt=self._prompts[row])
