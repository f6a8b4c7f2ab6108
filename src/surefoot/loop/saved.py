"""Training on the rollouts of an earlier run: step n takes the n-th file, and nothing is sampled or scored.

With the configuration of the run that saved them, and its model as it was at the start, the losses are that run's.
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from surefoot.loop.collect import Collected
from surefoot.observe.rollouts import count_groups, read_rollouts
from surefoot.types.errors import DataError, UsageError
from surefoot.types.rollout import Draw, Group


class SavedRollouts:
    """A source of prompts and a collector in one: what is drawn is what the file holds. Raises `DataError`."""

    def __init__(self, folder: Path) -> None:
        files = sorted(folder.glob("step-*.parquet"))
        if not files:
            raise DataError(f"debug.rollouts: {folder} holds no step-*.parquet")
        self._files = files
        self._ends = [0]  # draws before each file, and after the last
        for file in files:
            self._ends.append(self._ends[-1] + count_groups(file))
        self._next = 0
        self._groups: dict[int, Group] = {}

    @property
    def identity(self) -> str:
        """Digest of the files' contents: a resume must find the same."""
        hasher = hashlib.sha256()
        for file in self._files:
            hasher.update(file.read_bytes())
        return hasher.hexdigest()

    @property
    def cursor(self) -> int:
        return self._ends[self._next]

    @property
    def total(self) -> int:
        return self._ends[-1]

    def seek(self, cursor: int) -> None:
        """To where `cursor` prompts were taken, which is a border between files."""
        if cursor not in self._ends:
            raise UsageError(f"{cursor} prompts are not a whole number of the saved steps")
        self._next = self._ends.index(cursor)

    def draw(self, count: int) -> list[Draw]:
        """The prompts of the next file, however many; [] after the last."""
        if self._next == len(self._files):
            return []
        groups = read_rollouts(self._files[self._next])
        self._next += 1
        self._groups = {group.id: group for group in groups}
        return [Draw(number=group.id, epoch=0, row=group.id, prompt=group.prompt) for group in groups]

    def mine(self, draws: Sequence[Draw]) -> Sequence[Draw]:
        """Every rank reads the whole file."""
        return draws

    async def collect(self, draws: Sequence[Draw], on_group: Callable[[], None]) -> Collected:
        groups = []
        for draw in draws:
            groups.append(self._groups[draw.number])
            on_group()
        return Collected(tuple(groups), {})
