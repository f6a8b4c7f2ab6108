"""Log-probs and entropy against a float64 log-softmax: values, gradients, limits, memory."""

import subprocess
import sys
import textwrap

import pytest
import torch
from torch import Tensor

from surefoot.nn.logprobs import token_logprobs


def reference(hidden: Tensor, weight: Tensor, labels: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    logprobs = (hidden.double() @ weight.double().T / temperature).log_softmax(-1)
    return logprobs.gather(1, labels[:, None])[:, 0], -(logprobs.exp() * logprobs).sum(-1)


def case(rows: int, width: int, vocabulary: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(rows)
    hidden = torch.randn(rows, width, generator=generator, dtype=torch.float64)
    weight = torch.randn(vocabulary, width, generator=generator, dtype=torch.float64)
    return hidden.to(dtype), weight.to(dtype), torch.randint(0, vocabulary, (rows,), generator=generator)


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
def test_values_and_gradients_against_float64(chunk: int, temperature: float) -> None:
    hidden, weight, labels = case(65, 24, 101)
    upstream_lp, upstream_ent = torch.randn(65), torch.randn(65)
    results = []
    for function, dtype in ((token_logprobs, torch.float32), (reference, torch.float64)):
        h = hidden.detach().to(dtype, copy=True).requires_grad_()
        w = weight.detach().to(dtype, copy=True).requires_grad_()
        kwargs = {"chunk": chunk} if function is token_logprobs else {}
        logprobs, entropy = function(h, w, labels, temperature=temperature, **kwargs)
        ((logprobs * upstream_lp).sum() + (entropy * upstream_ent).sum()).backward()
        results.append((logprobs, entropy, h.grad, w.grad))
    ours, theirs = results
    for mine, right in zip(ours[:2], theirs[:2], strict=True):
        assert (mine.double() - right).abs().max() < 1e-5
    for mine, right in zip(ours[2:], theirs[2:], strict=True):
        assert (mine.double() - right).norm() / right.norm() < 1e-4


def test_gradients_by_finite_differences() -> None:
    hidden, weight, labels = case(5, 4, 7, torch.float64)
    assert torch.autograd.gradcheck(
        lambda h, w: token_logprobs(h, w, labels, temperature=0.7, chunk=2),
        (hidden.requires_grad_(), weight.requires_grad_()),
    )


def test_handed_values() -> None:
    """Logits [2, 1, 0], T = 0.5, token 0: the log-prob at the temperature, not the one divided by it."""
    logprobs, _ = token_logprobs(
        torch.tensor([[1.0]]), torch.tensor([[2.0], [1.0], [0.0]]), torch.tensor([0]), temperature=0.5
    )
    assert logprobs.item() == pytest.approx(-0.14293163, abs=1e-7)


def test_entropy_with_an_impossible_token_is_the_finite_limit() -> None:
    """Logits [0, 0, -inf]: ln 2, and the gradient of neither output is NaN where the impossible token is not chosen."""
    hidden = torch.tensor([[1.0]])
    weight = torch.tensor([[0.0], [0.0], [-torch.inf]], requires_grad=True)
    logprobs, entropy = token_logprobs(hidden, weight, torch.tensor([1]))
    assert entropy.item() == pytest.approx(0.69314718, abs=1e-6)
    assert logprobs.item() == pytest.approx(-0.69314718, abs=1e-6)
    (logprobs.sum() + entropy.sum()).backward()
    assert weight.grad is not None and weight.grad.isfinite().all()


def test_an_impossible_label_stays_minus_infinity() -> None:
    weight = torch.tensor([[0.0], [-torch.inf]])
    logprobs, _ = token_logprobs(torch.tensor([[1.0]]), weight, torch.tensor([1]))
    assert logprobs.item() == -torch.inf


def test_nan_is_never_made_finite() -> None:
    hidden, weight, labels = case(3, 4, 5)
    hidden[1, 0] = torch.nan
    logprobs, entropy = token_logprobs(hidden, weight, labels)
    assert logprobs.isnan().tolist() == entropy.isnan().tolist() == [False, True, False]


def test_no_rows() -> None:
    hidden, weight, _ = case(3, 4, 5)
    hidden.requires_grad_()
    logprobs, entropy = token_logprobs(hidden[:0], weight, torch.empty(0, dtype=torch.long))
    (logprobs.sum() + entropy.sum()).backward()
    assert hidden.grad is not None and (hidden.grad == 0).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_inputs_give_fp32(dtype: torch.dtype) -> None:
    hidden, weight, labels = case(9, 16, 31, dtype)
    logprobs, entropy = token_logprobs(hidden, weight, labels, chunk=4)
    right, right_entropy = reference(hidden, weight, labels, 1.0)
    assert logprobs.dtype == entropy.dtype == torch.float32
    assert (logprobs - right).abs().max() < 0.1
    assert (entropy - right_entropy).abs().max() < 0.1


MEMORY = """
    import resource, torch
    from surefoot.nn.logprobs import token_logprobs
    T, V, E = {T}, {V}, 16
    hidden = torch.randn(T, E, requires_grad=True); weight = torch.randn(V, E, requires_grad=True)
    labels = torch.randint(0, V, (T,))
    token_logprobs(hidden[:8], weight, labels[:8])[0].sum().backward()  # what any use costs is not counted
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    logprobs, entropy = token_logprobs(hidden, weight, labels, chunk=1024)
    (logprobs.sum() + entropy.sum()).backward()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def extra_kib(tokens: int, vocabulary: int) -> int:
    script = textwrap.dedent(MEMORY).format(T=tokens, V=vocabulary)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_memory_does_not_grow_with_tokens() -> None:
    """All logits of 8,192 x 32,768 are 1 GiB; a chunk's, with their gradient, 0.25 GiB."""
    assert extra_kib(8192, 32768) < 0.7 * 2**20


@pytest.mark.slow
def test_memory_at_full_size() -> None:
    """T = 16,384, V = 151,936: 9.3 GiB of logits, under 2 GiB extra."""
    assert extra_kib(16384, 151936) < 2 * 2**20
