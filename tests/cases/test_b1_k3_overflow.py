"""b1-k3-overflow, https://github.com/OpenRLHF/OpenRLHF/pull/1335

The k3 term clipped after exp: a finite loss with a NaN gradient. Its kind: any exponential of a log-ratio, in any
term, for any finite pair of log-probs and any format.
"""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.algos import importance_weights, kl_estimate, policy_loss
from surefoot.config.schema import AlgoConfig

FORMATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
K3 = {0.1: 0.005170918, 5.0: 142.4131591, -5.0: 4.006737947}  # by d = ref - policy, as handed
GRADIENT = {0.1: -0.105170918, 5.0: -147.4131591, -5.0: 0.993262053}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_handed_table(dtype: torch.dtype) -> None:
    logprobs_T = torch.zeros(3, dtype=dtype, requires_grad=True)
    value_T = kl_estimate(logprobs_T, torch.tensor(list(K3), dtype=dtype), kind="k3")
    value_T.sum().backward()
    assert logprobs_T.grad is not None
    assert value_T.tolist() == pytest.approx(list(K3.values()), rel=1e-6)
    assert logprobs_T.grad.tolist() == pytest.approx(list(GRADIENT.values()), rel=1e-6)


@pytest.mark.parametrize("kind", ["k3", "low_var_kl"])
@pytest.mark.parametrize("dtype", FORMATS)
def test_the_handed_batch(kind: str, dtype: torch.dtype) -> None:
    logprobs_T = torch.tensor([-1.1, -96.0], dtype=dtype, requires_grad=True)
    ref_T = torch.tensor([-1.0, -1.0], dtype=dtype)
    loss = kl_estimate(logprobs_T, ref_T, kind=kind).sum()
    loss.backward()
    assert logprobs_T.grad is not None
    assert loss.isfinite()
    d = float(ref_T[0].double() - logprobs_T[0].detach().double())  # 0.1 as the format holds it
    assert logprobs_T.grad[0].item() == pytest.approx(1 - math.exp(d), rel=2 * torch.finfo(dtype).eps + 1e-6)
    assert logprobs_T.grad[1].item() == 0


def test_the_check_fails_on_the_fault_itself() -> None:
    d_T = torch.tensor([0.1, 95.0], requires_grad=True)
    loss = (d_T.exp() - d_T - 1).clamp(-10, 10).sum()
    loss.backward()
    assert d_T.grad is not None
    assert loss.isfinite()
    assert d_T.grad.isnan().tolist() == [False, True]


@pytest.mark.parametrize("advantage", [1.0, -1.0, 0.0])
@pytest.mark.parametrize("dtype", FORMATS)
def test_policy_ratio_of_e95(advantage: float, dtype: torch.dtype) -> None:
    logprobs_T = torch.tensor([-1.0, -1.0], dtype=dtype, requires_grad=True)
    old_T = torch.tensor([-1.0, -96.0], dtype=dtype)
    ones_T = torch.ones(2, dtype=dtype)
    loss, metrics = policy_loss(
        logprobs_T, old_T, old_T, advantage * ones_T, ones_T, torch.tensor([0, 0]), config=AlgoConfig()
    )
    loss.backward()
    assert logprobs_T.grad is not None
    assert loss.isfinite()
    assert logprobs_T.grad.tolist() == [-advantage, 0.0]
    assert metrics["bounded_log_ratios"] == 1


@settings(max_examples=100, deadline=None)
@given(
    first=st.floats(-6e4, 0, width=16),
    second=st.floats(-6e4, 0, width=16),
    advantage=st.sampled_from([-1.0, 0.0, 1.0]),
    dtype=st.sampled_from([torch.bfloat16, torch.float32, torch.float64]),
)
def test_every_exponential_of_every_finite_pair(
    first: float, second: float, advantage: float, dtype: torch.dtype
) -> None:
    logprobs_T = torch.tensor([first], dtype=dtype, requires_grad=True)
    other_T, ids_T = torch.tensor([second], dtype=dtype), torch.tensor([0])
    one_T = torch.ones(1, dtype=dtype)
    loss, metrics = policy_loss(
        logprobs_T, other_T, other_T, advantage * one_T, one_T, ids_T, config=AlgoConfig(correction="tis")
    )
    for kind in ("k1", "k2", "k3", "low_var_kl"):
        loss = loss + kl_estimate(logprobs_T, other_T, kind=kind).sum()
    loss.backward()
    weights_T, _, _ = importance_weights(other_T, logprobs_T, ids_T, kind="tis")
    assert logprobs_T.grad is not None
    assert all(value.isfinite().all() for value in (loss, logprobs_T.grad, weights_T, *metrics.values()))


@pytest.mark.parametrize("kind", ["k3", "low_var_kl"])
@pytest.mark.parametrize("bad", [-math.inf, math.inf, math.nan])
def test_the_bound_makes_no_health_out_of_a_non_finite_logprob(kind: str, bad: float) -> None:
    for pair in ((bad, -1.0), (-1.0, bad)):
        value_T = kl_estimate(torch.tensor([pair[0]]), torch.tensor([pair[1]]), kind=kind)
        assert not value_T.isfinite().any()
