"""Attention over packed samples, behind transformers' attention interface.

The model's code stays transformers' own. It is loaded with `attn_implementation="surefoot"` and called with an
`attention_layout`, an object that knows where each token of the flat input belongs; every layer hands its queries,
keys and values to that object. The in-process engine brings layouts of its own that read and write a key/value cache.

Letters: T packed tokens, H query heads, K key/value heads, D head width, S samples, L longest of a bucket.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

NAME = "surefoot"
REFUSED = ("softcap", "s_aux", "sliding_window")  # attention variants the layouts below do not compute


class AttentionLayout(Protocol):
    def attend(self, layer: int, query_BHTD: Tensor, key_BKTD: Tensor, value_BKTD: Tensor, scale: float) -> Tensor: ...


def install() -> None:
    """Make `attn_implementation="surefoot"` known to transformers. Safe to call again."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, _attention)


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    attention_layout: AttentionLayout,
    scaling: float | None = None,
    dropout: float = 0.0,
    **variant: Any,
) -> tuple[Tensor, None]:
    asked = [name for name in REFUSED if variant.get(name) is not None]
    if asked or attention_mask is not None or dropout:
        raise NotImplementedError(f"{type(module).__name__} asks for attention with {asked or 'a mask or dropout'}")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return attention_layout.attend(module.layer_idx, query, key, value, scale).transpose(1, 2), None  # type: ignore[arg-type]


def attend_causal(query_SHLD: Tensor, key_SKLD: Tensor, value_SKLD: Tensor, scale: float) -> Tensor:
    """Causal attention inside each row of a right-padded batch; a real token never looks at a pad behind it."""
    gqa = query_SHLD.shape[1] != key_SKLD.shape[1]
    return F.scaled_dot_product_attention(query_SHLD, key_SKLD, value_SKLD, is_causal=True, scale=scale, enable_gqa=gqa)


class PackedLayout:
    """Samples laid end to end in one row of T tokens; each attends causally within itself.

    Samples are padded per bucket of like length (a power of two apart), so that ragged packs cost at most twice
    their own length and each bucket is one dense call. Pads are zeros: they are finite whatever the neighbours hold.
    """

    def __init__(self, lengths: Sequence[int], device: torch.device) -> None:
        self.lengths = tuple(lengths)
        self.num_tokens = sum(self.lengths)
        self.buckets = [_Bucket(self.lengths, members, device) for members in _bucket_members(self.lengths)]

    def attend(self, layer: int, query_BHTD: Tensor, key_BKTD: Tensor, value_BKTD: Tensor, scale: float) -> Tensor:
        query_THD, key_TKD, value_TKD = (x[0].transpose(0, 1) for x in (query_BHTD, key_BKTD, value_BKTD))
        if len(self.buckets) == 1:
            out_THD = self.buckets[0].attend(query_THD, key_TKD, value_TKD, scale)
        else:
            out_THD = torch.zeros_like(query_THD)
            for bucket in self.buckets:
                rows = bucket.tokens_N
                part_NHD = bucket.attend(query_THD[rows], key_TKD[rows], value_TKD[rows], scale)
                out_THD = out_THD.index_copy(0, rows, part_NHD)
        return out_THD.transpose(0, 1)[None]


def _bucket_members(lengths: Sequence[int]) -> list[list[int]]:
    members: dict[int, list[int]] = {}
    for index, length in enumerate(lengths):
        members.setdefault((length - 1).bit_length(), []).append(index)
    return [members[size] for size in sorted(members)]


class _Bucket:
    """Samples of like length: where their tokens lie in the pack (`tokens_N`) and in the padded batch (`slots_N`)."""

    def __init__(self, lengths: Sequence[int], members: Sequence[int], device: torch.device) -> None:
        starts = [0]
        for length in lengths:
            starts.append(starts[-1] + length)
        self.rows = len(members)
        self.width = max(lengths[m] for m in members)
        self.even = all(lengths[m] == self.width for m in members)
        tokens = [torch.arange(starts[m], starts[m + 1]) for m in members]
        slots = [torch.arange(lengths[m]) + row * self.width for row, m in enumerate(members)]
        self.tokens_N = torch.cat(tokens).to(device, non_blocking=True)
        self.slots_N = torch.cat(slots).to(device, non_blocking=True)

    def attend(self, query_NHD: Tensor, key_NKD: Tensor, value_NKD: Tensor, scale: float) -> Tensor:
        out_SHLD = attend_causal(self._pad(query_NHD), self._pad(key_NKD), self._pad(value_NKD), scale)
        flat = out_SHLD.transpose(1, 2).flatten(0, 1)
        return flat if self.even else flat[self.slots_N]

    def _pad(self, x_NHD: Tensor) -> Tensor:
        if not self.even:
            x_NHD = x_NHD.new_zeros(self.rows * self.width, *x_NHD.shape[1:]).index_copy(0, self.slots_N, x_NHD)
        return x_NHD.reshape(self.rows, self.width, *x_NHD.shape[1:]).transpose(1, 2)
