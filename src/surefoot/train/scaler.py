"""The loss scale of fp16 training. Plain floats: no device, no rank; every rank holds the same one.

Rule: Megatron-LM's dynamic gradient scaler (arXiv 1710.03740 for the method). An overflow takes one from the
hysteresis counter; while that is at zero every overflow backs off. `growth_interval` clean steps in a row grow the
scale and refill the counter; nothing else does.
"""

import math
from collections.abc import Mapping

import torch

from surefoot.config.schema import PrecisionConfig
from surefoot.types.errors import CheckpointError

KEYS = ("active", "scale", "clean_steps", "hysteresis_left")


class LossScaler:
    """Scale and counters. `active` False: the scale is 1.0 for ever. `dynamic` False: it is `init_scale` for ever.

    Start 1024, growth_interval 3, hysteresis 1, overflow on attempts 1 and 2 of 7: the scales used are
    1024, 512, 256, 256, 256, 512, 512.
    """

    def __init__(self, config: PrecisionConfig, *, active: bool) -> None:
        if active and not config.min_scale <= config.init_scale <= config.max_scale:
            raise ValueError(
                f"precision.init_scale {config.init_scale} is outside min_scale {config.min_scale} "
                f"to max_scale {config.max_scale}"
            )
        self._config = config
        self._active = active
        self._scale = config.init_scale if active else 1.0
        self._clean_steps = 0
        self._hysteresis_left = config.hysteresis

    @classmethod
    def from_config(cls, config: PrecisionConfig) -> "LossScaler":
        return cls(config, active=config.compute == "fp16")

    @property
    def loss_scale(self) -> float:
        """The scale in use: what gradients are divided by before anything reads them."""
        return self._scale

    @property
    def dynamic(self) -> bool:
        """Whether an overflow can lower the scale."""
        return self._active and self._config.dynamic_scale

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss to call backward on; gradients then are `scale` times the true ones."""
        return loss * self._scale if self._active else loss

    def update(self, overflow: bool) -> None:
        """Account for one attempt: an applied step is `False`; a skip for any reason but overflow is no call."""
        if not self.dynamic:
            return
        if overflow:
            self._clean_steps = 0
            self._hysteresis_left = max(0, self._hysteresis_left - 1)
            if self._hysteresis_left == 0:
                self._scale = max(self._scale * self._config.backoff_factor, self._config.min_scale)
            return
        self._clean_steps += 1
        if self._clean_steps >= self._config.growth_interval:
            self._clean_steps = 0
            self._hysteresis_left = self._config.hysteresis
            self._scale = min(self._scale * self._config.growth_factor, self._config.max_scale)

    def state_dict(self) -> dict[str, float]:
        """Scale and both counters, as JSON holds them."""
        return {
            "active": self._active,
            "scale": self._scale,
            "clean_steps": self._clean_steps,
            "hysteresis_left": self._hysteresis_left,
        }

    def restore(self, snapshot: Mapping[str, float]) -> None:
        """Back to exactly what `state_dict` returned, e.g. before retries that did not clear an overflow."""
        _check(snapshot)
        self._active = bool(snapshot["active"])
        self._scale = float(snapshot["scale"])
        self._clean_steps = int(snapshot["clean_steps"])
        self._hysteresis_left = int(snapshot["hysteresis_left"])

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Go on from a checkpoint under this run's config: the scale is clamped to its floor and ceiling.

        A static scale, a scale this run does not use, and a state saved where none was used leave this scaler as the
        config made it: the saved scale says nothing about this run.

        Errors: CheckpointError for missing or unknown keys and for values no scaler can hold.
        """
        _check(state)
        if not (self.dynamic and state["active"]):
            return
        self._scale = min(max(float(state["scale"]), self._config.min_scale), self._config.max_scale)
        self._clean_steps = int(state["clean_steps"])
        self._hysteresis_left = min(int(state["hysteresis_left"]), self._config.hysteresis)


def _check(state: Mapping[str, float]) -> None:
    if set(state) != set(KEYS):
        raise CheckpointError(f"loss scaler state has keys {sorted(state)}, expected {sorted(KEYS)}")
    if not (math.isfinite(state["scale"]) and state["scale"] > 0):
        raise CheckpointError(f"loss scaler state: scale {state['scale']}")
    for key in ("clean_steps", "hysteresis_left"):
        if state[key] < 0:
            raise CheckpointError(f"loss scaler state: {key} {state[key]}")
