"""Models that fail on one token, and samples that hold it or do not. Shared with the script that runs on two ranks."""

import dataclasses
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from support import make_samples
from surefoot.types.rollout import Sample

BAD_TOKEN = 30
LENGTHS = [(3, 5), (4, 18), (2, 1), (6, 9), (1, 2), (12, 9)]
SOME_BAD = [[0], [3], [1, 3], [2, 4, 5], [], list(range(len(LENGTHS)))]


def clean_samples() -> list[Sample]:
    """None reads BAD_TOKEN."""
    return [
        dataclasses.replace(sample, token_ids_L=np.where(sample.token_ids_L == BAD_TOKEN, 3, sample.token_ids_L))
        for sample in make_samples(LENGTHS)
    ]


def marked(samples: list[Sample], bad: list[int]) -> list[Sample]:
    """The samples numbered in `bad` read BAD_TOKEN first."""
    return [
        dataclasses.replace(sample, token_ids_L=np.append(BAD_TOKEN, sample.token_ids_L[1:]).astype(np.int32))
        if number in bad
        else sample
        for number, sample in enumerate(samples)
    ]


def bad_logprob(model: nn.Module) -> RemovableHandle:
    """NaN comes out of the embedding of BAD_TOKEN, so that the log-probs of its sample are NaN."""

    def hook(module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> Tensor:
        return output.masked_fill((inputs[0] == BAD_TOKEN)[..., None], torch.nan)

    return embedding(model).register_forward_hook(hook)


def bad_gradient(model: nn.Module) -> RemovableHandle:
    """All is finite going forward; NaN comes back into the embedding of BAD_TOKEN."""

    def hook(module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        here = (inputs[0] == BAD_TOKEN)[..., None]
        if output.requires_grad:
            output.register_hook(lambda grad: grad.masked_fill(here, torch.nan))

    return embedding(model).register_forward_hook(hook)


def embedding(model: nn.Module) -> nn.Module:
    found: nn.Module = model.hf.get_input_embeddings()  # type: ignore[union-attr, operator]
    return found


STAGES: dict[str, Callable[[nn.Module], RemovableHandle]] = {"log-prob": bad_logprob, "gradient": bad_gradient}
