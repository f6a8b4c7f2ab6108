"""b3-group-std-zero, https://github.com/NVIDIA-NeMo/RL/pull/4161

A group without spread gets huge advantages out of rounding noise. Its kind: any group of equal rewards, of any value,
size, format and estimator; and any statistic over equal others.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from surefoot.algos import group_advantages, policy_loss
from surefoot.algos.advantage import ESTIMATORS, degenerate_groups
from surefoot.config.schema import AlgoConfig

G1, G2, G3 = [0.1] * 8, [0.3] * 7 + [0.8], [1.0]


def advantages(rewards: list[float], estimator: str, dtype: torch.dtype = torch.float32) -> Tensor:
    ids_N = torch.zeros(len(rewards), dtype=torch.int64)
    return group_advantages(torch.tensor(rewards, dtype=dtype), ids_N, estimator=estimator, std_eps=1e-8)


@pytest.mark.parametrize("estimator", sorted(ESTIMATORS))
def test_g1_is_exactly_zero(estimator: str) -> None:
    assert advantages(G1, estimator).tolist() == [0.0] * 8  # the fault gives -0.41


def test_g2_leave_one_out_is_the_plain_difference() -> None:
    got_N = advantages(G2, "rloo")
    assert got_N[-1].item() == pytest.approx(0.5, rel=1e-6)  # the fault gives 5793
    assert got_N[:-1].tolist() == pytest.approx([0.3 - 2.6 / 7] * 7, rel=1e-5)


def test_g2_with_the_sample_standard_deviation() -> None:
    assert advantages(G2, "grpo").tolist() == pytest.approx([-0.35355339] * 7 + [2.47487373], rel=1e-6)


@pytest.mark.parametrize("estimator", sorted(ESTIMATORS))
def test_g3_is_zero(estimator: str) -> None:
    assert advantages(G3, estimator).tolist() == [0.0]


@pytest.mark.parametrize("estimator", sorted(ESTIMATORS))
def test_all_three_together_interleaved(estimator: str) -> None:
    rewards = torch.tensor(G1 + G2 + G3)
    ids_N = torch.tensor([1] * 8 + [2] * 8 + [3])
    order_N = torch.randperm(17, generator=torch.Generator().manual_seed(0))
    got_N = torch.empty(17)
    got_N[order_N] = group_advantages(rewards[order_N], ids_N[order_N], estimator=estimator, std_eps=1e-8)
    expected = [*advantages(G1, estimator).tolist(), *advantages(G2, estimator).tolist(), 0.0]
    assert got_N.tolist() == pytest.approx(expected, rel=1e-6)
    assert degenerate_groups(rewards, ids_N) == {"zero_variance": 1, "singleton": 1, "no_valid": 0}


@settings(max_examples=80, deadline=None)
@given(
    reward=st.floats(-1e3, 1e3),
    other=st.floats(-1e3, 1e3),
    size=st.integers(2, 33),
    dtype=st.sampled_from([torch.bfloat16, torch.float16, torch.float32, torch.float64]),
)
def test_leave_one_out_of_equal_others_is_the_difference(
    reward: float, other: float, size: int, dtype: torch.dtype
) -> None:
    rewards_N = torch.tensor([other] * size + [reward], dtype=dtype)
    got_N = group_advantages(rewards_N, torch.zeros(size + 1, dtype=torch.int64), estimator="rloo")
    difference = float(rewards_N[-1].double() - rewards_N[0].double())
    tolerance = max(2 * torch.finfo(dtype).eps, 1e-13)  # statistics are float64 sums, the result is rounded once
    assert got_N[-1].item() == pytest.approx(difference, rel=tolerance, abs=torch.finfo(dtype).tiny)


@pytest.mark.parametrize("estimator", sorted(ESTIMATORS))
def test_a_group_without_spread_adds_no_gradient(estimator: str) -> None:
    logprobs_T = torch.linspace(-9, -0.1, 8, requires_grad=True)
    old_T = logprobs_T.detach().flip(0)  # far from the policy
    weights_T, ids_T = torch.full((8,), 1 / 8), torch.arange(8)
    loss, _ = policy_loss(logprobs_T, old_T, old_T, advantages(G1, estimator), weights_T, ids_T, config=AlgoConfig())
    loss.backward()
    assert logprobs_T.grad is not None
    assert loss.item() == 0
    assert logprobs_T.grad.tolist() == [0.0] * 8
