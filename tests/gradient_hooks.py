"""Gradient hooks of the small runs."""

from collections.abc import Mapping

from torch import Tensor

from surefoot.train.hooks import Refusal

CALLS: list[list[str]] = []


def watch(gradients: Mapping[str, Tensor]) -> None:
    CALLS.append(sorted(gradients))


def refuse_second(gradients: Mapping[str, Tensor]) -> Refusal | None:
    CALLS.append(sorted(gradients))
    return Refusal("not the second") if len(CALLS) == 2 else None


def halt_second(gradients: Mapping[str, Tensor]) -> Refusal | None:
    CALLS.append(sorted(gradients))
    return Refusal("enough", halt=True) if len(CALLS) == 2 else None


async def asynchronous(gradients: Mapping[str, Tensor]) -> None: ...


def with_two(gradients: Mapping[str, Tensor], more: object) -> None: ...
