"""Checks of arguments that would otherwise broadcast, or compute something else, without a word.

N = entries, P = distinct ids.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TypeVar

import torch
from torch import Tensor

from surefoot.types.errors import ConfigError, UsageError

Entry = TypeVar("Entry")


def check_same_length(**tensors: Tensor) -> None:
    """Raise `UsageError` naming every shape unless all tensors are 1-D and equally long."""
    lengths = {tuple(tensor.shape) for tensor in tensors.values()}
    if len(lengths) != 1 or len(next(iter(lengths))) != 1:
        shapes = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in tensors.items())
        raise UsageError(f"expected 1-D tensors of one length, got {shapes}")


def check_bool(**tensors: Tensor) -> None:
    """Raise `UsageError` unless every tensor is boolean: a mask of 0.5 or of ids must not pass for True."""
    for name, tensor in tensors.items():
        if tensor.dtype != torch.bool:
            raise UsageError(f"{name}: expected a bool tensor, got {tensor.dtype}")


def number_ids(ids_N: Tensor, name: str) -> tuple[int, Tensor]:
    """(P, index_N): ids, any integers in any order, renumbered 0 to P - 1.

    Raise `UsageError` for ids that are not integers: as floats, two ids above 2^24 can become one.

    >>> number_ids(torch.tensor([7, 3, 7]), "group_ids")
    (2, tensor([1, 0, 1]))
    """
    if ids_N.is_floating_point() or ids_N.dtype == torch.bool:
        raise UsageError(f"{name}: expected integers, got {ids_N.dtype}")
    ids_P, index_N = ids_N.unique(return_inverse=True)
    return len(ids_P), index_N


def look_up(table: Mapping[str, Entry], name: str, key: str) -> Entry:
    """`table[name]`, or a `ConfigError` that names the config key and the nearest entry."""
    if name in table:
        return table[name]
    near = get_close_matches(name, table, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ConfigError(f"{key}: unknown {name!r}, known are {', '.join(sorted(table))}{hint}")
