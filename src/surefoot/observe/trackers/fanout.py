"""Every metric to every configured tracker."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Self

from surefoot.config.schema import ObserveConfig
from surefoot.observe.rundir import RunDir
from surefoot.observe.trackers.lane import Lane, Tracker
from surefoot.observe.trackers.tensorboard import TensorBoardTracker
from surefoot.observe.trackers.wandb_process import WandbTracker
from surefoot.types.errors import UsageError

CLOSE_SECONDS = 15.0  # for all trackers together; W&B alone takes some to start, where a run was short


class Trackers:
    """`warn` is told of a tracker's first failure, after which that tracker is off, and of what was not delivered.

    It is called from `log` and `close` only, in the caller's thread. Nothing here raises after `open`.
    """

    def __init__(
        self, lanes: Sequence[Lane], warn: Callable[[str], None], close_seconds: float = CLOSE_SECONDS
    ) -> None:
        self._lanes, self._warn, self._close_seconds = lanes, warn, close_seconds

    @classmethod
    def open(
        cls,
        config: ObserveConfig,
        run: RunDir,
        settings: Mapping[str, Any],
        *,
        resumed_at: int | None,
        warn: Callable[[str], None],
        close_seconds: float = CLOSE_SECONDS,
    ) -> Self:
        """`settings`: the whole configuration, as JSON can hold it. `resumed_at`: the last step that stands, -1 where
        none does; None where the run is new. Returns at once. UsageError where a tracker is not installed.
        """
        require_installed(config.trackers)
        made: dict[str, Callable[[], Tracker]] = {
            "tensorboard": lambda: TensorBoardTracker(run.logs / "tensorboard", resumed_at),
            "wandb": lambda: WandbTracker(
                run.logs,
                name=run.path.resolve().name,
                project=config.wandb_project,
                mode=config.wandb_mode,
                settings=settings,
            ),
        }
        return cls([Lane(made[name]()) for name in dict.fromkeys(config.trackers)], warn, close_seconds)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        for lane in self._lanes:
            lane.put(step, metrics)
            self._tell(lane.news())

    def close(self) -> None:
        """Returns within the time limit, a second a tracker more where one hangs."""
        until = time.monotonic() + self._close_seconds
        for lane in self._lanes:
            self._tell(lane.news())
            lane.begin_end()
        for lane in self._lanes:
            self._tell(lane.end(until - time.monotonic()))

    def _tell(self, text: str | None) -> None:
        if text:
            self._warn(text)


def require_installed(names: Iterable[str]) -> None:
    """UsageError where a tracker's package is missing; imports nothing.

    >>> require_installed([])
    """
    for name in names:
        if find_spec(name) is None:
            raise UsageError(f"observe.trackers: {name} is not installed: pip install 'surefoot[{name}]'")
