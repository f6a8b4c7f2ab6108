"""Packed attention: each sample as if it were alone, whatever it is packed with."""

import pytest
import torch
import torch.nn.functional as F

from surefoot.nn.attention import PackedLayout

CPU = torch.device("cpu")
MIXES = [[5], [4, 4, 4], [1, 2, 3, 4, 5], [33, 1, 8, 17, 2, 64, 3]]


def heads(tokens: int, number: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(1, number, tokens, 8, dtype=dtype, generator=torch.Generator().manual_seed(tokens + number))


@pytest.mark.parametrize("lengths", MIXES)
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_packed_equals_alone(lengths: list[int], kv_heads: int) -> None:
    tokens = sum(lengths)
    query, key, value = (heads(tokens, n).requires_grad_() for n in (4, kv_heads, kv_heads))
    out = PackedLayout(lengths, CPU).attend(0, query, key, value, 0.3)
    start = 0
    for length in lengths:
        part = slice(start, start + length)
        q, k, v = query[:, :, part], key[:, :, part], value[:, :, part]
        k, v = (x.repeat_interleave(4 // kv_heads, 1) for x in (k, v))
        scores = (q @ k.mT * 0.3).masked_fill(torch.ones(length, length).triu(1).bool(), -torch.inf)
        assert torch.allclose(out[:, :, part], scores.softmax(-1) @ v, atol=1e-12)
        start += length


@pytest.mark.parametrize("garbage", [torch.nan, torch.inf, 1e38])
def test_a_neighbour_s_garbage_stays_its_own(garbage: float) -> None:
    """Values and gradients of the other samples are bit-identical whatever one sample holds."""
    lengths = [5, 7, 6, 30]
    clean = [heads(sum(lengths), n, torch.float32) for n in (2, 2, 2)]
    bad = [x.clone() for x in clean]
    for x in bad:
        x[:, :, 5:12] = garbage
    results = []
    for tensors in (clean, bad):
        leaves = [x.requires_grad_() for x in tensors]
        out = PackedLayout(lengths, CPU).attend(0, *leaves, 0.3)
        torch.cat([out[:, :, :5], out[:, :, 12:]], 2).sum().backward()
        results.append([out.detach(), *(x.grad for x in leaves)])
    for mine, right in zip(*results, strict=True):
        assert torch.equal(mine[:, :, :5], right[:, :, :5])
        assert torch.equal(mine[:, :, 12:], right[:, :, 12:])


def test_what_a_layout_does_not_compute_is_refused() -> None:
    from surefoot.nn.attention import _attention

    query = heads(4, 2)
    layout = PackedLayout([4], CPU)
    module = torch.nn.Module()
    module.layer_idx = 0
    for variant in ({"sliding_window": 2}, {"softcap": 30.0}, {"s_aux": query}, {"dropout": 0.1}):
        with pytest.raises(NotImplementedError):
            _attention(module, query, query, query, None, attention_layout=layout, **variant)
    assert _attention(module, query, query, query, None, attention_layout=layout, sliding_window=None)[0].shape == (
        1,
        4,
        2,
        8,
    )


def test_one_token_rows_return_their_value() -> None:
    query, key, value = heads(3, 2), heads(3, 2), heads(3, 2)
    out = PackedLayout([1, 1, 1], CPU).attend(0, query, key, value, 1.0)
    assert torch.allclose(out, value)


def test_scale_is_used() -> None:
    query, key, value = heads(4, 2), heads(4, 2), heads(4, 2)
    right = F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=0.01)
    assert torch.allclose(PackedLayout([4], CPU).attend(0, query, key, value, 0.01), right)
