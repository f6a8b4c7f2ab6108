"""The norm in float64 and what it clips to."""

import math

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from surefoot.train.clip import clip_coefficient, grad_norm_sq


def norm_of(grads: list[torch.Tensor]) -> float:
    return math.sqrt(grad_norm_sq(grads).item())


def test_huge_but_finite_gradients_clip_to_an_eighth_each() -> None:
    grads = [torch.tensor(3e19) for _ in range(64)]
    assert not torch.stack(grads).square().sum().isfinite()  # what float32 makes of it
    norm = norm_of(grads)
    assert norm == pytest.approx(2.4e20, rel=1e-6)
    coefficient = clip_coefficient(norm, 1.0)
    torch._foreach_mul_(grads, coefficient)
    assert [grad.item() for grad in grads] == pytest.approx([1 / 8] * 64, rel=1e-6)


def test_an_ordinary_gradient_after_a_bad_one() -> None:
    assert norm_of([torch.tensor([math.inf] + [2.0] * 63)]) == math.inf
    grad = torch.tensor([6.0, 8.0] + [0.0] * 62)
    norm = norm_of([grad])
    assert norm == 10.0
    assert (grad * clip_coefficient(norm, 1.0)).tolist() == pytest.approx([0.6, 0.8] + [0.0] * 62)


def test_non_finite_is_reported_as_what_it_is() -> None:
    assert math.isnan(norm_of([torch.ones(3), torch.tensor([1.0, math.nan])]))
    assert norm_of([torch.ones(3), torch.tensor([1.0, -math.inf])]) == math.inf
    assert math.isnan(norm_of([torch.tensor([math.inf, math.nan])]))


@pytest.mark.parametrize("norm", [math.inf, math.nan, -math.inf, -1.0])
@pytest.mark.parametrize("max_norm", [0.0, 1.0])
def test_a_norm_that_is_no_number_never_becomes_a_factor(norm: float, max_norm: float) -> None:
    with pytest.raises(ValueError, match="cannot scale gradients"):
        clip_coefficient(norm, max_norm)


@pytest.mark.parametrize("max_norm", [-1.0, math.nan, math.inf])
def test_a_senseless_limit_is_refused(max_norm: float) -> None:
    with pytest.raises(ValueError, match=r"train\.max_grad_norm"):
        clip_coefficient(1.0, max_norm)


@pytest.mark.parametrize(
    ("norm", "max_norm", "expected"),
    [(10.0, 1.0, 0.1), (0.5, 1.0, 1.0), (1.0, 1.0, 1.0), (10.0, 0.0, 1.0), (0.0, 1.0, 1.0), (1e300, 1.0, 1e-300)],
)
def test_coefficient(norm: float, max_norm: float, expected: float) -> None:
    assert clip_coefficient(norm, max_norm) == expected


@given(
    exponents=st.lists(st.integers(-35, 37), min_size=1, max_size=8),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float64]),
)
@settings(max_examples=60, deadline=None)
def test_any_size_equals_the_float64_sum(exponents: list[int], dtype: torch.dtype) -> None:
    grads = [(torch.linspace(-3, 3, 5, dtype=torch.float64) * 10.0**e).to(dtype) for e in exponents]
    expected = np.sum([np.sum(np.square(grad.double().numpy())) for grad in grads])
    total = grad_norm_sq(grads)
    assert total.dtype == torch.float64 and total.shape == ()
    assert total.item() == pytest.approx(float(expected), rel=1e-12)


def test_mixed_shapes_dtypes_and_empty_shards() -> None:
    grads = [torch.full((2, 2), 3.0), torch.empty(0, 4), torch.tensor(4.0, dtype=torch.float16)]
    assert grad_norm_sq(grads).item() == 9 * 4 + 16
    assert grad_norm_sq([torch.empty(0)]).item() == 0.0
    assert grad_norm_sq([]).item() == 0.0


def test_it_never_waits_for_the_device() -> None:
    # A meta tensor has no value, so that reading one on the host would raise.
    total = grad_norm_sq([torch.empty(4, device="meta"), torch.empty(2, 3, device="meta")])
    assert total.device.type == "meta" and total.dtype == torch.float64


def test_a_dtensor_is_refused() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        grad = distribute_tensor(torch.ones(4), init_device_mesh("cpu", (1,)), [Shard(0)])
        with pytest.raises(TypeError, match="to_local"):
            grad_norm_sq([grad])
        assert grad_norm_sq([grad.to_local()]).item() == 4.0
    finally:
        dist.destroy_process_group()
