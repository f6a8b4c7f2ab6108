"""Which rank and which micro-batch a sample goes to.

Two goals pull apart: equal FLOPs over ranks (they wait for the slowest) and full micro-batches (a part-filled one
costs as many launches and collectives). FLOPs come first; fill is then won without giving them up.
"""

import heapq
import math
from bisect import bisect_left, insort
from collections.abc import Sequence

MIN_FILL = 0.97  # of the token budget of the non-empty micro-batches; below it a tighter plan is looked for
CRUMBS = 0.02  # share of a full rank's tokens held back for short samples, which fill the gaps long ones leave
MAX_SPREAD = 0.05  # of FLOPs, costliest rank over cheapest minus 1; a tighter plan above it is not taken

Bins = list[list[int]]
Plan = tuple[tuple[tuple[int, ...], ...], ...]


def plan_pack(
    lengths: Sequence[int], *, ranks: int, max_tokens: int, linear_cost: float, quadratic_cost: float
) -> Plan:
    """Place every sample once: rank -> micro-batch -> sample indices; `()` is an empty micro-batch.

    lengths: packed positions of each sample. A sample costs linear_cost * L + quadratic_cost * L**2, in any unit.
    Every rank gets the same number of micro-batches, at least one, because each runs the same collectives.

    1. Longest processing time first over ranks, best-fit decreasing into micro-batches inside a rank.
    2. Where that leaves fill under `MIN_FILL`, some ranks get one micro-batch fewer and longer samples instead, as
       long as FLOPs stay within `MAX_SPREAD`: a long sample costs more a token.

    Where no such plan exists (few samples, or `quadratic_cost` near 0 and a total that is no multiple of the ranks'
    budgets) step 1 stands. Deterministic: ties go to the lower index.

    >>> plan_pack([3, 5, 2, 4], ranks=1, max_tokens=7, linear_cost=1.0, quadratic_cost=0.0)
    (((1, 2), (0, 3)),)
    >>> plan_pack([3], ranks=2, max_tokens=7, linear_cost=1.0, quadratic_cost=0.0)
    (((0,),), ((),))

    Errors: ValueError for a length outside 1..max_tokens, ranks or max_tokens below 1, a cost that is negative or
    not finite.
    """
    _check(lengths, ranks, max_tokens, linear_cost, quadratic_cost)
    costs = [linear_cost * length + quadratic_cost * length * length for length in lengths]
    bins_R = [_best_fit(indices, lengths, max_tokens) for indices in _longest_first(costs, ranks)]
    if sum(lengths) < MIN_FILL * max_tokens * _count(bins_R):
        bins_R = _tighten(
            lengths, costs, bins_R, max_tokens=max_tokens, linear_cost=linear_cost, quadratic_cost=quadratic_cost
        )
    width = max(1, *(len(bins) for bins in bins_R))
    return tuple(tuple(tuple(sorted(indices)) for indices in bins) + ((),) * (width - len(bins)) for bins in bins_R)


def spread(costs_R: Sequence[float]) -> float:
    """Costliest rank over cheapest, minus 1; inf where a rank has no work and another has, 0 where none has.

    >>> spread([100.0, 105.0])
    0.05
    """
    low, high = min(costs_R), max(costs_R)
    if high == 0:
        return 0.0
    return math.inf if low == 0 else (high - low) / low


def _check(lengths: Sequence[int], ranks: int, max_tokens: int, linear_cost: float, quadratic_cost: float) -> None:
    if ranks < 1 or max_tokens < 1:
        raise ValueError(f"ranks and max_tokens must be at least 1, got {ranks} and {max_tokens}")
    for name, cost in (("linear_cost", linear_cost), ("quadratic_cost", quadratic_cost)):
        if not (math.isfinite(cost) and cost >= 0):
            raise ValueError(f"{name} must be finite and not negative, got {cost}")
    for index, length in enumerate(lengths):
        if not 1 <= length <= max_tokens:
            raise ValueError(f"sample {index} has {length} packed positions; a micro-batch holds 1 to {max_tokens}")


def _longest_first(costs: Sequence[float], ranks: int) -> Bins:
    """Costliest sample first, always to the rank with the least so far (Graham's LPT rule).

    >>> _longest_first([3.0, 5.0, 2.0, 4.0], 2)
    [[1, 2], [3, 0]]
    """
    indices_R: Bins = [[] for _ in range(ranks)]
    heap = [(0.0, rank) for rank in range(ranks)]
    for index in sorted(range(len(costs)), key=lambda i: (-costs[i], i)):
        total, rank = heap[0]
        indices_R[rank].append(index)
        heapq.heapreplace(heap, (total + costs[index], rank))
    return indices_R


def _best_fit(indices: Sequence[int], lengths: Sequence[int], max_tokens: int) -> Bins:
    """Longest first, each into the bin it fills best; a new bin where none has room.

    >>> _best_fit([0, 1, 2, 3], [3, 5, 2, 4], 7)
    [[1, 2], [3, 0]]
    """
    bins: Bins = []
    free: list[tuple[int, int]] = []  # (tokens left, bin), sorted
    for index in sorted(indices, key=lambda i: (-lengths[i], i)):
        length = lengths[index]
        at = bisect_left(free, (length, -1))
        room, place = free.pop(at) if at < len(free) else (max_tokens, len(bins))
        if place == len(bins):
            bins.append([])
        bins[place].append(index)
        insort(free, (room - length, place))
    return bins


def _tighten(
    lengths: Sequence[int],
    costs: Sequence[float],
    bins_R: list[Bins],
    *,
    max_tokens: int,
    linear_cost: float,
    quadratic_cost: float,
) -> list[Bins]:
    """The plan of fill >= `MIN_FILL` that gives up the least balance, or `bins_R` where none keeps `MAX_SPREAD`."""
    total, ranks = sum(lengths), len(bins_R)
    most, least = math.floor(total / (MIN_FILL * max_tokens)), math.ceil(total / max_tokens)
    # Fewer micro-batches ask for more imbalance in tokens, so the first plan that fits is the best balanced.
    for count in range(most, least - 1, -1):
        if count < ranks:
            break
        shares_R = _shares(total, ranks, max_tokens, count)
        indices_R = _fill_shares(lengths, shares_R, count % ranks, linear_cost, quadratic_cost)
        tight_R = _pack_short_ranks(indices_R, lengths, max_tokens, count)
        if spread([sum(costs[i] for indices in bins for i in indices) for bins in tight_R]) > MAX_SPREAD:
            break
        no_longer = max(map(len, tight_R)) <= max(map(len, bins_R))
        if no_longer and total >= MIN_FILL * max_tokens * _count(tight_R):
            return tight_R
    return bins_R


def _shares(total: int, ranks: int, max_tokens: int, count: int) -> list[float]:
    """Tokens of each rank where `count` micro-batches go to `ranks`: ranks with one fewer are filled to the brim.

    >>> _shares(34, 2, 10, 4), _shares(43, 2, 10, 5)
    ([17.0, 17.0], [23.0, 20.0])
    """
    fewer, long_ranks = divmod(count, ranks)
    short_ranks = ranks - long_ranks
    short = min(float(fewer * max_tokens), total / ranks) if long_ranks else total / ranks
    rest = (total - short_ranks * short) / long_ranks if long_ranks else 0.0
    return [rest] * long_ranks + [short] * short_ranks


def _fill_shares(
    lengths: Sequence[int], shares_R: Sequence[float], long_ranks: int, linear_cost: float, quadratic_cost: float
) -> Bins:
    """Longest first, to the rank whose cost would end lowest if it met its share of tokens.

    A rank's linear cost is settled by its share, so what is left to balance is the sum of squares: ranks with a
    small share (those from `long_ranks` on) draw the long samples until they have caught up.
    """
    indices_R: Bins = [[] for _ in shares_R]
    room_R, cost_R = list(shares_R), [linear_cost * share for share in shares_R]
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))

    def place(index: int, rank: int) -> None:
        indices_R[rank].append(index)
        room_R[rank] -= lengths[index]
        cost_R[rank] += quadratic_cost * lengths[index] ** 2

    for rank in range(long_ranks, len(shares_R)):
        while order and room_R[rank] > (1 - CRUMBS) * shares_R[rank]:
            place(order.pop(), rank)
    for index in order:
        fits = [rank for rank, room in enumerate(room_R) if room >= lengths[index]]
        if fits:
            place(index, min(fits, key=lambda r: (cost_R[r], -room_R[r], r)))
        else:
            place(index, max(range(len(room_R)), key=lambda r: (room_R[r], -r)))
    return indices_R


def _pack_short_ranks(indices_R: Bins, lengths: Sequence[int], max_tokens: int, count: int) -> list[Bins]:
    """Best fit in every rank; what overflows the full ranks goes to those with a part-filled micro-batch."""
    fewer, long_ranks = divmod(count, len(indices_R))
    if long_ranks == 0:
        return [_best_fit(indices, lengths, max_tokens) for indices in indices_R]
    long_R = [list(indices) for indices in indices_R[:long_ranks]]
    tokens_R = [sum(lengths[i] for i in indices) for indices in long_R]
    short_bins: list[Bins] = []
    for indices in indices_R[long_ranks:]:
        bins = _best_fit(indices, lengths, max_tokens)
        short_bins.append(bins[:fewer])
        for index in (i for spilled in bins[fewer:] for i in spilled):
            rank = min(range(long_ranks), key=lambda r: (tokens_R[r], r))
            long_R[rank].append(index)
            tokens_R[rank] += lengths[index]
    return [_best_fit(indices, lengths, max_tokens) for indices in long_R] + short_bins


def _count(bins_R: Sequence[Bins]) -> int:
    return sum(len(bins) for bins in bins_R)
