"""The key/value cache: a row of slots, and the two attention layouts that fill and read it.

Running rollouts hold slots 0 .. B-1, so a decode step works on a slice, never on a gather.
Letters: B running rollouts, K key/value heads, C capacity of a slot in tokens, D head width, P prompts, T tokens.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from surefoot.nn.attention import PackedLayout

GROWTH = 128  # capacity is a multiple of this


class SlotCache:
    """Keys and values of every layer. Storage appears with the first prompt, whose tensors show its shape."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.capacity = 0
        self.layers: dict[int, tuple[Tensor, Tensor]] = {}

    def reserve(self, tokens: int) -> None:
        """Every slot can hold `tokens` from now on; what the slots hold stays."""
        if tokens <= self.capacity:
            return
        self.capacity = -(-tokens // GROWTH) * GROWTH
        grown = {}
        for layer, pair in self.layers.items():
            grown[layer] = tuple(F.pad(x, (0, 0, 0, self.capacity - x.shape[2])) for x in pair)
        self.layers = grown  # type: ignore[assignment]

    def write_prompt(self, layer: int, slot: int, key_KTD: Tensor, value_KTD: Tensor) -> None:
        """Fills a slot anew. The rest becomes zero: a former tenant's NaN would outlive a mask of weight 0."""
        if layer not in self.layers:
            shape = (self.slots, key_KTD.shape[0], self.capacity, key_KTD.shape[2])
            self.layers[layer] = (key_KTD.new_zeros(shape), value_KTD.new_zeros(shape))
        for store, x_KTD in zip(self.layers[layer], (key_KTD, value_KTD), strict=True):
            store[slot, :, : x_KTD.shape[1]] = x_KTD
            store[slot, :, x_KTD.shape[1] :] = 0.0

    def append(self, layer: int, lengths_B: Tensor, key_BKD: Tensor, value_BKD: Tensor) -> tuple[Tensor, Tensor]:
        """Writes one token into each of the slots 0 .. B-1 behind `lengths_B`; returns their keys and values."""
        rows_B = torch.arange(len(lengths_B), device=lengths_B.device)
        keys, values = self.layers[layer]
        keys[rows_B, :, lengths_B] = key_BKD
        values[rows_B, :, lengths_B] = value_BKD
        return keys[: len(lengths_B)], values[: len(lengths_B)]

    def copy(self, source: int, target: int) -> None:
        for keys, values in self.layers.values():
            keys[target], values[target] = keys[source], values[source]


class PrefillLayout:
    """Packed prompts, each written into its slot on the way through."""

    def __init__(self, packed: PackedLayout, cache: SlotCache, slots_P: Sequence[int]) -> None:
        self.packed, self.cache, self.slots_P = packed, cache, slots_P

    def attend(self, layer: int, query_BHTD: Tensor, key_BKTD: Tensor, value_BKTD: Tensor, scale: float) -> Tensor:
        lengths = self.packed.lengths
        parts = zip(self.slots_P, key_BKTD[0].split(lengths, 1), value_BKTD[0].split(lengths, 1), strict=True)
        for slot, key_KTD, value_KTD in parts:
            self.cache.write_prompt(layer, slot, key_KTD, value_KTD)
        return self.packed.attend(layer, query_BHTD, key_BKTD, value_BKTD, scale)


class DecodeLayout:
    """One new token for each of the slots 0 .. B-1, which hold `lengths_B` tokens already."""

    def __init__(self, cache: SlotCache, lengths_B: Tensor) -> None:
        self.cache, self.lengths_B = cache, lengths_B
        self.width = int(lengths_B.max()) + 1
        seen = torch.arange(self.width, device=lengths_B.device)[None] <= lengths_B[:, None]
        self.seen_B11W = seen[:, None, None]

    def attend(self, layer: int, query_BHTD: Tensor, key_BKTD: Tensor, value_BKTD: Tensor, scale: float) -> Tensor:
        keys, values = self.cache.append(layer, self.lengths_B, key_BKTD[:, :, 0], value_BKTD[:, :, 0])
        keys, values = keys[:, :, : self.width], values[:, :, : self.width]
        gqa = query_BHTD.shape[1] != keys.shape[1]
        return F.scaled_dot_product_attention(
            query_BHTD, keys, values, attn_mask=self.seen_B11W, scale=scale, enable_gqa=gqa
        )
