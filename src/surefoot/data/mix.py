"""Which of several sources each draw comes from: a schedule that keeps to the shares at every draw.

Letters: w whole weights, W their sum: source i has a share of w[i] / W, and after W draws the schedule repeats.
"""

import heapq
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from surefoot.types.errors import ConfigError

FINEST = 500_000  # shares are whole parts of at most so many, so that a period is made in less than a second


@dataclass(frozen=True, slots=True)
class Share:
    """One of the sources of a stream: so many rows, drawn in proportion to `weight`."""

    rows: int
    weight: float


def whole_weights(weights: Sequence[float]) -> list[int]:
    """Weights as whole numbers without a common factor; shares too fine for that are rounded to parts of `FINEST`.

    Raises `ConfigError` for a weight of 0 and for a share that is next to nothing.

    >>> whole_weights([0.7, 0.2, 0.1])
    [7, 2, 1]
    """
    exact = [Fraction(repr(float(weight))) for weight in weights]  # 0.7 is meant as 7/10
    if any(weight <= 0 for weight in exact):
        raise ConfigError(f"weights {list(weights)}: each must be above 0")
    total = sum(exact)
    scale = math.lcm(*(weight.denominator for weight in exact))
    whole = [int(weight * scale) for weight in exact]
    if sum(whole) // math.gcd(*whole) > FINEST:
        whole = [round(FINEST * weight / total) for weight in exact]
    if 0 in whole:
        raise ConfigError(f"weights {list(weights)}: a share is below one of {FINEST:,} draws")
    return [weight // math.gcd(*whole) for weight in whole]


class Schedule:
    """After n draws source i was drawn n * w[i] / W times, give or take less than 1, for every i and n.

    Draw j of source i may come once its share has begun (n * w > (j - 1) * W) and must by the time it ends, the first n
    with n * w >= j * W; of the sources that may, the one whose share ends first comes. That none ever comes too late:
    R. Tijdeman, "The chairman assignment problem", 1980; G. Steiner and S. Yeomans, "Level schedules for mixed-model,
    just-in-time processes", 1993.
    """

    def __init__(self, weights: Sequence[float]) -> None:
        self.weights = whole_weights(weights)
        self.period = sum(self.weights)
        self._order = array("I")  # sources of the first draws; grows to one period, as it is asked for
        self._drawn = [0] * len(self.weights)
        self._may: list[tuple[int, int]] = sorted((self._end(i, 1), i) for i in range(len(self.weights)))
        self._later: dict[int, list[tuple[int, int]]] = {}  # draw from which they may -> (end, source)

    def source(self, draw: int) -> int:
        """The source of a draw, counted from 0."""
        place = draw % self.period
        self._grow(place + 1)
        return self._order[place]

    def drawn(self, draws: int) -> list[int]:
        """How often each source is among the first `draws`."""
        periods, rest = divmod(draws, self.period)
        self._grow(rest)
        counts = np.bincount(np.array(self._order[:rest], dtype=np.int64), minlength=len(self.weights))
        return [periods * w + int(count) for w, count in zip(self.weights, counts, strict=True)]

    def draws_until(self, counts: Sequence[int]) -> int:
        """Draws after which each source had its count, by its share: the slowest source decides."""
        return max(self._end(source, count) for source, count in enumerate(counts))

    def _end(self, source: int, count: int) -> int:
        return -(-count * self.period // self.weights[source])

    def _grow(self, length: int) -> None:
        order, may, later = self._order, self._may, self._later
        for draw in range(len(order) + 1, length + 1):  # as many as `FINEST`: each microsecond counts
            source = may[0][1]
            order.append(source)
            done = self._drawn[source] = self._drawn[source] + 1
            begins = done * self.period // self.weights[source]
            entry = (self._end(source, done + 1), source)
            if begins <= draw:
                heapq.heapreplace(may, entry)
            else:
                heapq.heappop(may)
                later.setdefault(begins, []).append(entry)
            for waiting in later.pop(draw, ()):
                heapq.heappush(may, waiting)
