"""The training step: roles, packing, loss scale, verdicts, checkpoints.

`Trainer` and `LossScaler` are imported when they are asked for: the command line reads manifests without torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surefoot.train.scaler import LossScaler as LossScaler
    from surefoot.train.step import Trainer as Trainer

__all__ = ["LossScaler", "Trainer"]

HOMES = {"LossScaler": "surefoot.train.scaler", "Trainer": "surefoot.train.step"}


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(HOMES[name]), name)
