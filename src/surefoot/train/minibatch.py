"""A rollout batch cut into mini-batches, one update each."""

from collections.abc import Sequence

from surefoot.types.rollout import Sample


def split(samples: Sequence[Sample], n: int) -> list[list[Sample]]:
    """Cut into n mini-batches in the order given; sizes, counted in rollouts, differ by at most one.

    The samples fanned out of one rollout stay together: they share its denominator. The larger mini-batches come
    first: 5 rollouts in 2 give 3 and 2. A rollout stands where its first sample does.

    Errors: ValueError where n is below 1 or above the number of rollouts.
    """
    rollouts: dict[tuple[int, int], list[Sample]] = {}
    for sample in samples:
        rollouts.setdefault((sample.ref.group, sample.ref.rollout), []).append(sample)
    if not 1 <= n <= len(rollouts):
        raise ValueError(f"train.updates_per_rollout: cannot cut {len(rollouts)} rollouts into {n} mini-batches")
    fewer, larger = divmod(len(rollouts), n)
    ordered = iter(rollouts.values())
    return [[sample for _ in range(fewer + (number < larger)) for sample in next(ordered)] for number in range(n)]
