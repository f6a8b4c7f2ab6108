"""What the benchmarks know of a trainer's inside: every name of it that they call or stand in for.

Each stand-in takes the expensive part away, so that what is left can be timed by itself.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from typing import Any

import torch
from torch import Tensor

from surefoot.train.roles import packed_inputs
from surefoot.train.step import Trainer
from surefoot.types.train import Batch

BACKWARD = "backward"  # the trainer's method that runs the micro-batches


def backward(trainer: Trainer, batch: Batch) -> Any:
    """Gradients of the whole batch, in the masters."""
    return trainer.backward(batch)


def loss_scale(trainer: Trainer) -> float:
    return trainer.scaler.loss_scale


def scaled(trainer: Trainer, loss: Tensor) -> Tensor:
    return trainer.scaler.scale(loss)


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Another attribute of an instance in the place of its own, or of its class's, for the block."""
    own = vars(owner)
    had, before = name in own, own.get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if had:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


@contextmanager
def before_update(trainer: Trainer, call: Callable[[], None]) -> Iterator[None]:
    """`call` is called between the decision to apply and the optimizer's step."""
    step = trainer.optimizer.step

    def announced(*arguments: Any, **options: Any) -> Any:
        call()
        return step(*arguments, **options)

    with replaced(trainer.optimizer, "step", announced):
        yield


@contextmanager
def without_model(trainer: Trainer, batch: Batch) -> Iterator[None]:
    """In the block an attempt at `batch` runs no micro-batch and no optimizer: evidence, decision and report are left.

    The gradients are zeros in the masters' shapes and the loss scale is 1, so nothing is clipped or unscaled either.
    """
    result = backward(trainer, batch)
    masters, scaler, updates = trainer.masters, trainer.scaler.state_dict(), trainer.updates
    for master in masters.tensors:
        master.grad = torch.zeros_like(master)
    trainer.scaler.restore({**scaler, "scale": 1.0})
    try:
        with (
            replaced(trainer, BACKWARD, lambda *_, **__: result),
            replaced(masters, "clear_gradients", _nothing),
            replaced(masters, "publish", _nothing),
            replaced(trainer.optimizer, "step", _nothing),
        ):
            yield
    finally:
        masters.clear_gradients()
        trainer.scaler.restore(scaler)
        trainer.updates = updates


@contextmanager
def known_logprobs(trainer: Trainer, batch: Batch) -> Iterator[None]:
    """In the block the policy answers with log-probs and entropies it gave before: no layer and no head is run.

    Micro-batches must be asked for in their order. Backward ends at the log-probs.
    """
    world, config, model = trainer.roles.policy.world, trainer.config, trainer.roles.policy.model
    answers = []
    with torch.no_grad():
        for microbatch in batch.microbatches_RM[world.rank]:
            inputs = packed_inputs(microbatch, world.device)
            logprobs_N, entropy_N = model(inputs, config.temperature, config.train.logprob_chunk)
            answers.append((logprobs_N.requires_grad_(), entropy_N))
    turns = cycle(answers)
    with replaced(model, "forward", lambda *_: next(turns)):
        yield


def _nothing() -> None:
    """Stands in for what is not to be timed."""
