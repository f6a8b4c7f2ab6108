"""Gradient hooks: functions of the user's that see an attempt's gradients before anything is decided."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from surefoot.train.masters import Masters
from surefoot.train.shard import local


@dataclass(frozen=True, slots=True)
class Refusal:
    """A hook's no: the step is skipped with reason `hook` or, with `halt`, the run ends with `user_policy`."""

    why: str
    halt: bool = False


class GradientHook(Protocol):
    """Called on every rank once the gradients of all micro-batches are there; one rank's refusal counts for all.

    `gradients`: parameter name -> this rank's part of its gradient, unscaled, not yet clipped, in the masters'
    precision. None: no objection. An exception skips the step with reason `error`.
    """

    def __call__(self, gradients: Mapping[str, Tensor]) -> Refusal | None: ...


class UnscaledGradients(Mapping[str, Tensor]):
    """Each is a copy, made when it is asked for: what a hook does to it reaches nothing, and only hooks pay for it."""

    def __init__(self, masters: Masters, loss_scale: float) -> None:
        pairs = zip(masters.names, masters.tensors, strict=True)
        self._grads = {name: local(master.grad) for name, master in pairs if master.grad is not None}
        self._loss_scale = loss_scale

    def __getitem__(self, name: str) -> Tensor:
        return self._grads[name] / self._loss_scale

    def __iter__(self) -> Iterator[str]:
        return iter(self._grads)

    def __len__(self) -> int:
        return len(self._grads)


def ask(hooks: Sequence[GradientHook], gradients: Mapping[str, Tensor]) -> list[Refusal]:
    """The refusals of this rank. TypeError names a hook that answered something else."""
    refusals = []
    for hook in hooks:
        answer = hook(gradients)
        if answer is None:
            continue
        if not isinstance(answer, Refusal):
            raise TypeError(f"{name_of(hook)} returned {answer!r}; a gradient hook returns None or a Refusal")
        refusals.append(Refusal(f"{name_of(hook)}: {answer.why}", answer.halt))
    return refusals


def name_of(hook: GradientHook) -> str:
    """As an import path has it; an object without a name of its own goes by its class."""
    named = hook if hasattr(hook, "__qualname__") else type(hook)
    return f"{named.__module__}.{named.__qualname__}"
