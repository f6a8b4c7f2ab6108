"""Episodes and rewards: what happens between a prompt and its reward."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surefoot.envs.episode import run_group as run_group
    from surefoot.envs.episode import run_rollout as run_rollout
    from surefoot.envs.hooks import load_function as load_function
    from surefoot.envs.rubric import Rubric as Rubric
    from surefoot.envs.workers.pool import WorkerPool as WorkerPool

__all__ = ["Rubric", "WorkerPool", "load_function", "run_group", "run_rollout"]

HOMES = {
    "Rubric": "surefoot.envs.rubric",
    "WorkerPool": "surefoot.envs.workers.pool",
    "load_function": "surefoot.envs.hooks",
    "run_group": "surefoot.envs.episode",
    "run_rollout": "surefoot.envs.episode",
}


def __getattr__(name: str) -> Any:
    """Public names are imported when they are asked for: a reward's worker process needs few of them."""
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(HOMES[name]), name)
