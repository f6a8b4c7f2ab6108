"""Wall-clock seconds of a step's stages, by name."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Spans:
    def __init__(self) -> None:
        self.started_at = time.time()
        self._start = time.monotonic()
        self.seconds: dict[str, float] = {}

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        start = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - start

    @property
    def total(self) -> float:
        return time.monotonic() - self._start
