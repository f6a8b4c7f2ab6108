"""The reference is the formula in Python floats, token by token; the gradient its closed form."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from surefoot.algos.loss import policy_loss
from surefoot.config.schema import AlgoConfig

FORMATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
NAN, INF = math.nan, math.inf
BOUND, CAP = 20.0, 2.0
CONFIG = AlgoConfig(clip_low=0.2, clip_high=0.28, correction="tis", tis_cap=CAP, log_ratio_bound=BOUND)
METRICS = {
    "clipped_tokens",
    "bounded_log_ratios",
    "ratio_sum",
    "kl_old_sum",
    "abs_term_sum",
    "correction_capped",
    "correction_bounded",
    "correction_rejected",
    "correction_sum",
}


def reference(lp: float, old: float, mu: float, advantage: float, weight: float) -> tuple[float, float]:
    """One token's share of the loss, and its derivative in lp."""
    log_ratio = max(-BOUND, min(BOUND, lp - old))
    ratio = math.exp(log_ratio)
    clipped = max(1 - CONFIG.clip_low, min(1 + CONFIG.clip_high, ratio))
    correction = min(math.exp(max(-BOUND, min(BOUND, old - mu))), CAP)
    free, bound = -advantage * ratio, -advantage * clipped
    moves = free >= bound and log_ratio == lp - old
    return weight * correction * max(free, bound), weight * correction * free if moves else 0.0


def run(
    columns: list[tuple[float, float, float, float, float]],
    dtype: torch.dtype = torch.float64,
    config: AlgoConfig = CONFIG,
) -> tuple[float, Tensor, dict[str, float]]:
    lp_T, old_T, mu_T, advantages_T, weights_T = torch.tensor(columns, dtype=dtype).reshape(-1, 5).T.contiguous()
    lp_T = lp_T.clone().requires_grad_()
    ids_T = torch.zeros(len(columns), dtype=torch.int64)
    loss, metrics = policy_loss(lp_T, old_T, mu_T, advantages_T, weights_T, ids_T, config=config)
    loss.backward()
    assert lp_T.grad is not None
    return loss.item(), lp_T.grad, {name: value.item() for name, value in metrics.items()}


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "gradient", "clipped"),
    [
        (1.5, 1.0, -1.28, 0.0, 1),
        (1.5, -1.0, 1.5, 1.5, 0),
        (0.5, 1.0, -0.5, -0.5, 0),
        (0.5, -1.0, 0.8, 0.0, 1),
        (1.1, 2.0, -2.2, -2.2, 0),
        (1.1, -2.0, 2.2, 2.2, 0),
        (1.0, 3.0, -3.0, -3.0, 0),  # lp = old, the first update: the whole gradient, not half of it
    ],
)
def test_worked_values(ratio: float, advantage: float, loss: float, gradient: float, clipped: int) -> None:
    got, grad_T, metrics = run([(math.log(ratio) - 1, -1.0, -1.0, advantage, 1.0)])
    assert got == pytest.approx(loss, rel=1e-12)
    assert grad_T.item() == pytest.approx(gradient, rel=1e-12)
    assert metrics["clipped_tokens"] == clipped
    assert metrics["bounded_log_ratios"] == 0
    assert metrics["ratio_sum"] == pytest.approx(ratio, rel=1e-12)
    assert metrics["kl_old_sum"] == pytest.approx(ratio - 1 - math.log(ratio), abs=1e-12)
    assert metrics["abs_term_sum"] == pytest.approx(abs(loss), rel=1e-12)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("log_ratio", [99.9, -99.9])
@pytest.mark.parametrize("advantage", [1.0, -1.0, 0.0])
def test_log_ratio_of_99_9(dtype: torch.dtype, log_ratio: float, advantage: float) -> None:
    lp, old = (-0.1, -100.0) if log_ratio > 0 else (-100.0, -0.1)
    loss, grad_T, metrics = run([(lp, old, old, advantage, 1.0), (-1.0, -1.0, -1.0, 1.0, 1.0)], dtype)
    expected, _ = reference(lp, old, old, advantage, 1.0)
    assert loss == pytest.approx(expected - 1.0, rel=1e-6)
    assert grad_T.tolist() == [0.0, -1.0]
    assert metrics["bounded_log_ratios"] == 1
    assert metrics["kl_old_sum"] == pytest.approx(
        math.expm1(math.copysign(20, log_ratio)) - math.copysign(20, log_ratio)
    )


@settings(max_examples=80, deadline=None)
@given(lp=st.floats(-1e4, 0), old=st.floats(-1e4, 0), mu=st.floats(-1e4, 0), dtype=st.sampled_from(FORMATS))
def test_zero_advantage_contributes_exactly_nothing(lp: float, old: float, mu: float, dtype: torch.dtype) -> None:
    loss, grad_T, metrics = run([(lp, old, mu, 0.0, 1.0)], dtype)
    assert loss == 0
    assert grad_T.item() == 0
    assert metrics["clipped_tokens"] == metrics["abs_term_sum"] == 0


@settings(max_examples=120, deadline=None)
@given(
    lp=st.floats(-200, 0),
    old=st.floats(-200, 0),
    mu=st.floats(-200, 0),
    advantage=st.floats(-5, 5),
    weight=st.floats(1e-6, 1),
)
def test_any_finite_token_matches_the_formula(
    lp: float, old: float, mu: float, advantage: float, weight: float
) -> None:
    loss, grad_T, metrics = run([(lp, old, mu, advantage, weight)])
    expected, gradient = reference(lp, old, mu, advantage, weight)
    assert loss == pytest.approx(expected, rel=1e-9, abs=1e-300)
    assert grad_T.item() == pytest.approx(gradient, rel=1e-9, abs=1e-300)
    assert metrics["bounded_log_ratios"] == (abs(lp - old) > BOUND)
    assert metrics["correction_bounded"] == (abs(old - mu) > BOUND)
    assert metrics["abs_term_sum"] == abs(loss)


@settings(max_examples=60, deadline=None)
@given(
    lp=st.floats(-6e4, 0, width=16),
    old=st.floats(-6e4, 0, width=16),
    advantage=st.floats(-4, 4, width=16),
    dtype=st.sampled_from([torch.float16, torch.bfloat16, torch.float32]),
)
def test_short_formats_are_computed_in_float32(lp: float, old: float, advantage: float, dtype: torch.dtype) -> None:
    stored = torch.tensor([lp, old, old, advantage, 2.0**-10], dtype=dtype).double().tolist()
    loss, grad_T, _ = run([tuple(stored)], dtype)
    expected, gradient = reference(*stored)
    assert loss == pytest.approx(expected, rel=1e-5, abs=1e-30)
    if abs(gradient) < 6e4:
        assert grad_T.isfinite().all()
        assert grad_T.double().item() == pytest.approx(gradient, rel=torch.finfo(dtype).eps + 1e-5, abs=1e-7)


@pytest.mark.parametrize("column", [0, 1, 2, 3])
@pytest.mark.parametrize("bad", [INF, -INF, NAN])
@pytest.mark.parametrize("advantage", [1.0, -1.0, 0.0])
def test_non_finite_is_evidence_and_points_to_its_token(column: int, bad: float, advantage: float) -> None:
    healthy = [(-1.0, -1.2, -1.1, 1.0, 0.5), (-3.0, -1.0, -1.1, -1.0, 0.5)]
    token = [-1.0, -1.1, -1.2, advantage, 0.5]
    token[column] = bad
    loss, grad_T, _ = run([healthy[0], tuple(token), healthy[1]])
    _, alone_T, _ = run(healthy)
    assert not math.isfinite(loss)
    assert not math.isfinite(grad_T[1].item())
    assert grad_T[[0, 2]].tolist() == alone_T.tolist()


def test_selecting_a_bad_token_away_leaves_the_rest_as_it_was() -> None:
    rows = [(-1.0, -1.2, -1.1, 1.0, 0.5), (-INF, NAN, -INF, 1.0, 0.0), (-3.0, -1.0, -1.1, -1.0, 0.5)]
    keep_T = torch.tensor([True, False, True])
    columns_5T = torch.tensor(rows, dtype=torch.float64).T
    logprobs_T = columns_5T[0].clone().requires_grad_()
    selected = [logprobs_T[keep_T], *(column_T[keep_T] for column_T in columns_5T[1:])]
    loss, _ = policy_loss(*selected, torch.zeros(2, dtype=torch.int64), config=CONFIG)
    loss.backward()
    assert logprobs_T.grad is not None
    expected, alone_T, _ = run([rows[0], rows[2]])
    assert loss.item() == expected
    assert logprobs_T.grad.tolist() == [alone_T[0].item(), 0.0, alone_T[1].item()]


@pytest.mark.parametrize("correction", ["none", "tis"])
def test_finite_differences(correction: Any) -> None:
    config = AlgoConfig(correction=correction, log_ratio_bound=3.0)  # exp(20) would drown the differences
    old_T = torch.tensor([-1.0, -2.0, -0.5, -3.0, -1.0, -30.0], dtype=torch.float64)
    # Ratios 1.05, 1.5, 0.6, 0.9, 1.5, and one beyond the bound: no kink within the step of the check.
    shift_T = torch.tensor([0.05, 0.405, -0.51, -0.105, 0.405, 4.0], dtype=torch.float64)
    mu_T = old_T + torch.tensor([0.1, -1.5, 0.2, -0.3, 0.0, 0.1], dtype=torch.float64)
    advantages_T = torch.tensor([1.0, 2.0, -1.0, -0.5, -1.5, -1.0], dtype=torch.float64)
    weights_T, ids_T = torch.full_like(old_T, 1 / 6), torch.zeros(6, dtype=torch.int64)

    def loss(x_T: Tensor) -> Tensor:
        return policy_loss(x_T, old_T, mu_T, advantages_T, weights_T, ids_T, config=config)[0]

    assert torch.autograd.gradcheck(loss, ((old_T + shift_T).requires_grad_(),))


def test_every_other_column_is_a_constant() -> None:
    columns = [torch.full((1,), -1.0, requires_grad=True) for _ in range(5)]
    loss, metrics = policy_loss(*columns, torch.tensor([0]), config=CONFIG)
    loss.backward()
    assert columns[0].grad is not None
    assert all(column.grad is None for column in columns[1:])
    assert not any(value.requires_grad for value in metrics.values())
    shared_T = torch.full((1,), -1.0, requires_grad=True)  # old handed over undetached must not cancel the gradient
    loss, _ = policy_loss(shared_T, shared_T, shared_T, torch.ones(1), torch.ones(1), torch.tensor([0]), config=CONFIG)
    loss.backward()
    assert shared_T.grad is not None
    assert shared_T.grad.item() == -1


@pytest.mark.parametrize("dtype", FORMATS)
def test_no_tokens_give_zero_with_a_graph(dtype: torch.dtype) -> None:
    loss, grad_T, metrics = run([], dtype)
    assert loss == 0
    assert grad_T.shape == (0,)
    assert set(metrics.values()) == {0.0}


def test_a_rank_without_tokens_reaches_its_parameters_with_zero_gradient() -> None:
    parameter = torch.tensor([2.0, 3.0], requires_grad=True)
    none_T = torch.zeros(0)
    loss, _ = policy_loss(parameter[:0], *[none_T] * 4, none_T.long(), config=CONFIG)
    loss.backward()
    assert parameter.grad is not None
    assert parameter.grad.tolist() == [0.0, 0.0]


def test_loss_and_metrics_of_every_cut_add_up_to_the_whole() -> None:
    rows = [
        (-1.0, -1.3, -1.2, 1.0, 0.2),
        (-0.1, -99.0, -3.0, -1.0, 0.1),
        (-2.0, -1.0, -1.0, -0.5, 0.3),
        (-2.0, -2.1, -5.0, 0.7, 0.4),
    ]
    whole, whole_T, sums = run(rows)
    assert set(sums) == METRICS
    for cut in range(5):
        (a, a_T, a_sums), (b, b_T, b_sums) = run(rows[:cut]), run(rows[cut:])
        assert a + b == pytest.approx(whole, rel=1e-12)
        assert torch.cat([a_T, b_T]).tolist() == whole_T.tolist()
        assert all(a_sums[name] + b_sums[name] == pytest.approx(sums[name], rel=1e-12) for name in METRICS)


def test_metrics_are_detached_float64_scalars_on_the_device() -> None:
    x_T = torch.zeros(3, requires_grad=True)
    _, metrics = policy_loss(x_T, *[torch.zeros(3)] * 4, torch.arange(3), config=CONFIG)
    assert all(m.shape == () and m.dtype == torch.float64 and not m.requires_grad for m in metrics.values())


def test_no_host_synchronisation() -> None:
    columns = [torch.zeros(3, device="meta") for _ in range(5)]  # a meta tensor has no value to wait for
    loss, metrics = policy_loss(*columns, torch.zeros(3, dtype=torch.int64, device="meta"), config=CONFIG)
    assert all(value.device.type == "meta" for value in [loss, *metrics.values()])
