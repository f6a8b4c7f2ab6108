"""c1-accumulation-token-mean, https://github.com/verl-project/verl/issues/5625

A token mean becomes a mean of micro-batch means. Its kind: for every aggregation, the loss and the gradient of each
token do not depend on how the batch is cut and ordered. The model has one parameter a token: its gradient is the
token's weight.
"""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from surefoot.algos import policy_loss, token_weights
from surefoot.algos.reduce import AGGREGATIONS
from surefoot.config.schema import AlgoConfig

TERMS = [4.0, 1.0, 2.0, 3.0]
ROLLOUTS = [0, 1, 1, 1]
LOSS = {"token_mean": 2.5, "sample_mean": 3.0, "constant": 1.25}
WEIGHTS = {"token_mean": [1 / 4] * 4, "sample_mean": [1 / 2, 1 / 6, 1 / 6, 1 / 6], "constant": [1 / 8] * 4}
CUTS = [  # micro-batches of token indices: whole, by response in either order, by token budget, by token
    [[0, 1, 2, 3]],
    [[0], [1, 2, 3]],
    [[1, 2, 3], [0]],
    [[0, 1], [2, 3]],
    [[3, 1], [2, 0]],
    [[0], [1], [2], [3], []],
]


def accumulate(terms_T: Tensor, weights_T: Tensor, ids_T: Tensor, cuts: list[list[int]]) -> tuple[float, list[float]]:
    """Sum of the micro-batches' losses, and the gradient on each token. With lp = old and A = -1 a token's term is its
    ratio 1; the parameter is the log-prob, so terms other than 1 come in as -A."""
    logprobs_T = torch.full_like(terms_T, -1.0).requires_grad_()
    old_T = logprobs_T.detach()
    total = 0.0
    for cut in cuts:
        pick = torch.tensor(cut, dtype=torch.int64)
        columns = (logprobs_T[pick], old_T[pick], old_T[pick], -terms_T[pick], weights_T[pick], ids_T[pick])
        loss, _ = policy_loss(*columns, config=AlgoConfig())
        loss.backward()
        total += loss.item()
    assert logprobs_T.grad is not None
    return total, logprobs_T.grad.tolist()


@pytest.mark.parametrize("aggregation", sorted(LOSS))
@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_handed_batch_in_every_cut(aggregation: str, cuts: list[list[int]], dtype: torch.dtype) -> None:
    ids_T = torch.tensor(ROLLOUTS)
    weights_T = token_weights(ids_T >= 0, ids_T, ids_T, aggregation=aggregation, constant_length=4)
    assert weights_T.tolist() == pytest.approx(WEIGHTS[aggregation], rel=1e-12)
    loss, gradient = accumulate(torch.tensor(TERMS, dtype=dtype), weights_T.to(dtype), ids_T, cuts)
    assert loss == pytest.approx(LOSS[aggregation], rel=1e-6)
    expected = [weight * term for weight, term in zip(WEIGHTS[aggregation], TERMS, strict=True)]
    assert gradient == pytest.approx(expected, rel=1e-6)


def test_the_check_fails_on_the_fault_itself() -> None:
    ids_T, terms_T = torch.tensor(ROLLOUTS), torch.tensor(TERMS)
    means = []
    for cut in ([0], [1, 2, 3]):
        mask_T = torch.zeros(4, dtype=torch.bool).index_fill(0, torch.tensor(cut), True)
        weights_T = token_weights(mask_T, ids_T, ids_T, aggregation="token_mean")  # denominators of one micro-batch
        means.append(accumulate(terms_T, weights_T, ids_T, [cut])[0])
    assert sum(means) / 2 == pytest.approx(3.0)  # where 2.5 is right


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(st.booleans(), st.integers(0, 4), st.floats(-9, 9)), min_size=1, max_size=12),
    aggregation=st.sampled_from(sorted(AGGREGATIONS)),
    data=st.data(),
)
def test_any_batch_in_any_cut_and_order(
    rows: list[tuple[bool, int, float]], aggregation: str, data: st.DataObject
) -> None:
    mask_T = torch.tensor([mask for mask, _, _ in rows])
    ids_T = torch.tensor([rollout for _, rollout, _ in rows])
    terms_T = torch.tensor([term for _, _, term in rows], dtype=torch.float64)
    weights_T = token_weights(mask_T, ids_T, ids_T, aggregation=aggregation, constant_length=7)
    trained = mask_T.nonzero().flatten().tolist()
    whole = accumulate(terms_T, weights_T, ids_T, [trained])
    order = data.draw(st.permutations(trained))
    edges = sorted(data.draw(st.lists(st.integers(0, len(order)), max_size=4)))
    cuts = [order[a:b] for a, b in itertools.pairwise([0, *edges, len(order)])]
    loss, gradient = accumulate(terms_T, weights_T, ids_T, cuts)
    assert loss == pytest.approx(whole[0], rel=1e-12, abs=1e-12)
    assert gradient == whole[1]
