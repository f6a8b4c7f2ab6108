"""The learning rate as a pure function of the number of updates applied."""

import math

from surefoot.config.schema import OptimConfig


def learning_rate(update: int, *, config: OptimConfig, total_updates: int) -> float:
    """Learning rate of the next update, `update` having been applied so far; a skipped attempt does not count.

    Warm-up is linear and its first update is not wasted on 0: with `warmup` 4 the factors are 1/4, 2/4, 3/4, 1.
    Then `constant` stays; `linear` and `cosine` fall from 1 at update `warmup` to `min_lr_ratio` at update
    `total_updates` and stay there. total_updates: planned updates of the run, 0 where unknown.

    With lr 1, no warm-up and total_updates 4, linear gives 1, 0.75, 0.5, 0.25; cosine 1, 0.854, 0.5, 0.146.

    Errors: ValueError for a negative count, or for linear and cosine without a known end.
    """
    if update < 0 or total_updates < 0:
        raise ValueError(f"counts of updates cannot be negative: update {update}, total_updates {total_updates}")
    if config.schedule != "constant" and total_updates == 0:
        raise ValueError(f'optim.schedule = "{config.schedule}" needs a known end: set loop.steps')
    if update < config.warmup:
        return config.lr * (update + 1) / config.warmup
    if config.schedule == "constant":
        return config.lr
    progress = min(1.0, (update - config.warmup) / max(1, total_updates - config.warmup))
    left = 1.0 - progress if config.schedule == "linear" else (1.0 + math.cos(math.pi * progress)) / 2
    return config.lr * (config.min_lr_ratio + (1.0 - config.min_lr_ratio) * left)
