"""References: the formulas in Python floats (math.exp), and the closed gradients."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from surefoot.algos.kl import KINDS, kl_and_bounded, kl_estimate
from surefoot.types.errors import ConfigError, UsageError

FORMATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def reference(q: float, kind: str, bound: float = 20.0) -> tuple[float, float]:
    """Value and derivative in q."""
    if kind == "k1":
        return q, 1.0
    if kind == "k2":
        return q * q / 2, q
    bounded = max(-bound, min(bound, q))
    value = math.expm1(-bounded) + bounded  # exp(-q) - 1 + q without its cancellation
    gradient = 0.0 if bounded != q else -math.expm1(-q)
    if kind == "low_var_kl" and value > 10:
        return 10.0, 0.0
    return value, gradient


def evaluate(q_T: Tensor, kind: str, bound: float = 20.0) -> tuple[Tensor, Tensor]:
    logprobs_T = q_T.clone().requires_grad_()
    value_T = kl_estimate(logprobs_T, torch.zeros_like(q_T), kind=kind, bound=bound)
    value_T.sum().backward()
    assert logprobs_T.grad is not None
    return value_T.detach(), logprobs_T.grad


def test_k3_far_below_is_bounded_in_both_places() -> None:
    value_T, grad_T = evaluate(torch.tensor([-100.0]), "k3")
    assert value_T.item() == pytest.approx(math.exp(20) - 1 - 20, rel=1e-6)
    assert grad_T.item() == 0.0  # bounding q inside exp alone gives +1


def test_low_var_kl_far_below_is_ten() -> None:
    value_T, grad_T = evaluate(torch.tensor([-100.0]), "low_var_kl")
    assert (value_T.item(), grad_T.item()) == (10.0, 0.0)


def test_low_var_kl_loses_its_gradient_below_minus_2_61() -> None:
    q_T = torch.tensor([-2.60, -2.62, 10.9, 11.1], dtype=torch.float64)
    value_T, grad_T = evaluate(q_T, "low_var_kl")
    assert value_T[0] < 10
    assert value_T[1] == 10
    assert (grad_T == 0).tolist() == [False, True, False, True]
    assert kl_and_bounded(q_T, torch.zeros_like(q_T), kind="low_var_kl")[1].tolist() == [False, True, False, True]


@settings(max_examples=120, deadline=None)
@given(q=st.floats(-1e4, 1e4), kind=st.sampled_from(sorted(KINDS)), bound=st.sampled_from([1.0, 20.0, 80.0]))
def test_any_finite_q_matches_the_formula(q: float, kind: str, bound: float) -> None:
    value_T, grad_T = evaluate(torch.tensor([q], dtype=torch.float64), kind, bound)
    value, gradient = reference(q, kind, bound)
    assert value_T.item() == pytest.approx(value, rel=1e-9, abs=1e-300)
    assert grad_T.item() == pytest.approx(gradient, rel=1e-9, abs=1e-15)


@settings(max_examples=120, deadline=None)
@given(
    logprob=st.floats(-6e4, 0, width=16),
    ref_logprob=st.floats(-6e4, 0, width=16),
    kind=st.sampled_from(sorted(KINDS)),
    dtypes=st.tuples(st.sampled_from(FORMATS), st.sampled_from(FORMATS)),
)
def test_any_format_is_finite_and_right_for_the_numbers_it_holds(
    logprob: float, ref_logprob: float, kind: str, dtypes: tuple[torch.dtype, torch.dtype]
) -> None:
    logprobs_T = torch.tensor([logprob], dtype=dtypes[0], requires_grad=True)
    ref_T = torch.tensor([ref_logprob], dtype=dtypes[1])
    value_T = kl_estimate(logprobs_T, ref_T, kind=kind)
    value_T.sum().backward()
    assert logprobs_T.grad is not None
    value, gradient = reference(float(logprobs_T.detach().double() - ref_T.double()), kind)
    assert value_T.dtype == (torch.float64 if torch.float64 in dtypes else torch.float32)
    assert value_T.item() == pytest.approx(value, rel=1e-6, abs=1e-37)
    if abs(gradient) < 6e4 or dtypes[0] != torch.float16:  # a gradient in fp16 is what the loss scale is for
        assert logprobs_T.grad.isfinite().all()
        eps = torch.finfo(dtypes[0]).eps
        assert logprobs_T.grad.item() == pytest.approx(gradient, rel=eps + 1e-6, abs=1e-7)


@pytest.mark.parametrize("q", [1e-3, -1e-3, 1e-5])
def test_small_differences_keep_their_digits_in_float32(q: float) -> None:
    value_T, _ = evaluate(torch.tensor([q]), "k3")
    assert value_T.item() == pytest.approx(reference(float(torch.tensor(q)), "k3")[0], rel=1e-6)


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("pair", [(-math.inf, -1.0), (-1.0, -math.inf), (math.nan, -1.0), (-1.0, math.nan)])
@pytest.mark.parametrize("dtype", FORMATS)
def test_non_finite_stays_non_finite(kind: str, pair: tuple[float, float], dtype: torch.dtype) -> None:
    logprobs_T = torch.tensor([pair[0], -1.0], dtype=dtype)
    value_T = kl_estimate(logprobs_T, torch.tensor([pair[1], -1.5], dtype=dtype), kind=kind)
    assert value_T.isfinite().tolist() == [False, True]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_finite_differences(kind: str) -> None:
    q_T = torch.tensor([-2.0, -0.3, 0.2, 1.7, 5.0], dtype=torch.float64, requires_grad=True)  # no kink near
    assert torch.autograd.gradcheck(lambda x: kl_estimate(x, torch.full_like(q_T, -0.1), kind=kind), (q_T,))


def test_the_reference_takes_no_gradient() -> None:
    ref_T = torch.zeros(1, requires_grad=True)
    assert not kl_estimate(torch.ones(1), ref_T, kind="k3").requires_grad


def test_bounded_counts_nothing_where_no_bound_applies() -> None:
    q_T = torch.tensor([-500.0, 500.0, 1.0, math.nan])
    for kind, expected in {"k1": 0, "k2": 0, "k3": 2, "low_var_kl": 2}.items():
        assert int(kl_and_bounded(q_T, torch.zeros_like(q_T), kind=kind)[1].sum()) == expected


def test_no_tokens() -> None:
    for kind in KINDS:
        assert kl_estimate(torch.zeros(0), torch.zeros(0), kind=kind).shape == (0,)


def test_misuse_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"algo.kl_kind: unknown 'k4'"):
        kl_estimate(torch.zeros(1), torch.zeros(1), kind="k4")
    with pytest.raises(UsageError, match="ref_logprobs"):
        kl_estimate(torch.zeros(2), torch.zeros(1), kind="k1")
    with pytest.raises(ConfigError, match=r"algo.log_ratio_bound"):
        kl_estimate(torch.zeros(1), torch.zeros(1), kind="k3", bound=100.0)
