"""RL post-training for language models in which every step is accounted for.

    import surefoot as sf
    result = sf.run(sf.load_config("run.toml", "optim.lr=1e-5"))  # -> RunResult(run_dir, steps, metrics)

Pure parts are importable on their own from `surefoot.algos`, `surefoot.train`, `surefoot.data` and `surefoot.envs`.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surefoot.config.load import load_config as load_config
    from surefoot.loop.run import RunResult as RunResult
    from surefoot.loop.run import run as run

__version__ = "0.1.0"
__all__ = ["RunResult", "load_config", "run"]

HOMES = {"load_config": "surefoot.config.load", "run": "surefoot.loop.run", "RunResult": "surefoot.loop.run"}


def __getattr__(name: str) -> Any:
    """Public names are imported when they are asked for: `import surefoot` brings no torch."""
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(HOMES[name]), name)
