import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.algos.ratio import bounded, bounded_exp, promoted
from surefoot.types.errors import ConfigError

FORMATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.parametrize("dtype", FORMATS)
def test_promotion_is_to_at_least_float32(dtype: torch.dtype) -> None:
    expected = torch.float64 if dtype == torch.float64 else torch.float32
    assert promoted(torch.zeros(1, dtype=dtype)).dtype == expected


@pytest.mark.parametrize("dtype", FORMATS)
def test_exp_at_and_beyond_the_bound(dtype: torch.dtype) -> None:
    ratio_T, bounded_T = bounded_exp(torch.tensor([-99.9, -20.0, 0.0, 20.0, 99.9], dtype=dtype), 20.0)
    expected = [math.exp(-20), math.exp(-20), 1.0, math.exp(20), math.exp(20)]
    torch.testing.assert_close(ratio_T.double(), torch.tensor(expected, dtype=torch.float64), rtol=1e-6, atol=0)
    assert bounded_T.tolist() == [True, False, False, False, True]


@settings(max_examples=60, deadline=None)
@given(x=st.floats(-1e30, 1e30), dtype=st.sampled_from([torch.float32, torch.float64]))
def test_any_finite_log_ratio_gives_a_finite_value_and_gradient(x: float, dtype: torch.dtype) -> None:
    x_T = torch.tensor([x], dtype=dtype, requires_grad=True)
    ratio_T, bounded_T = bounded_exp(x_T, 20.0)
    ratio_T.sum().backward()
    assert x_T.grad is not None
    held = x_T.detach().item()  # x as the format holds it
    expected = math.exp(held) if abs(held) <= 20 else 0.0
    assert ratio_T.isfinite().all()
    assert x_T.grad.item() == pytest.approx(expected, rel=1e-5)
    assert bounded_T.item() == (abs(held) > 20)


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_non_finite_is_evidence_in_value_and_gradient_of_its_token_alone(bad: float) -> None:
    x_T = torch.tensor([0.5, bad, 50.0], requires_grad=True)
    ratio_T, bounded_T = bounded_exp(x_T, 20.0)
    ratio_T.sum().backward()
    assert x_T.grad is not None
    assert ratio_T.isfinite().tolist() == [True, False, True]
    assert x_T.grad.isfinite().tolist() == [True, False, True]
    assert bounded_T.tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("bound", "dtype"),
    [
        *((bound, torch.float32) for bound in (0.0, -1.0, math.nan, 89.0)),
        *((bound, torch.float64) for bound in (710.0, math.inf)),
    ],
)
def test_a_bound_that_bounds_nothing_is_refused(bound: float, dtype: torch.dtype) -> None:
    with pytest.raises(ConfigError, match=r"algo.log_ratio_bound"):
        bounded(torch.zeros(1, dtype=dtype), bound)


@pytest.mark.parametrize(("bound", "dtype"), [(88.0, torch.float32), (709.0, torch.float64)])
def test_the_greatest_bound_does_not_overflow(bound: float, dtype: torch.dtype) -> None:
    ratio_T, _ = bounded_exp(torch.tensor([1e4], dtype=dtype), bound)
    assert ratio_T.isfinite().all()
