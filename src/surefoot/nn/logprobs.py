"""Log-probs and entropy of chosen tokens from hidden states and the head, in chunks over tokens.

No [T, V] tensor is ever kept: a chunk's logits live for one matrix product, and backward computes them again.
Everything after the product is fp32 (or fp64 where the inputs are). Letters: N rows, V vocabulary, E hidden width.
"""

from typing import Any

import torch
from torch import Tensor


def head_logits(hidden_NE: Tensor, weight_VE: Tensor, temperature: float) -> Tensor:
    """Logits at the sampling temperature, in fp32 or wider; sampler and trainer both come through here."""
    if hidden_NE.is_cuda and hidden_NE.dtype in (torch.bfloat16, torch.float16):
        logits_NV = torch.mm(hidden_NE, weight_VE.T, out_dtype=torch.float32)
    else:
        dtype = accumulate_dtype(hidden_NE.dtype)  # a product in bf16 would round each logit to three digits
        logits_NV = hidden_NE.to(dtype) @ weight_VE.to(dtype).T
    return logits_NV if temperature == 1.0 else logits_NV.div_(temperature)


def accumulate_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def token_logprobs(
    hidden_NE: Tensor, weight_VE: Tensor, labels_N: Tensor, *, temperature: float = 1.0, chunk: int = 1024
) -> tuple[Tensor, Tensor]:
    """(logprobs [N], entropy [N]) of softmax(hidden @ weight.T / temperature), in nats, fp32 or wider.

    Both are differentiable in `hidden_NE` and `weight_VE`. A logit of -inf has probability 0 and adds 0 to the
    entropy. Example: logits [2, 1, 0], label 0, temperature 0.5 give -0.14293163 (not half of the value at 1).
    """
    logprobs_N, entropy_N = _TokenLogprobs.apply(hidden_NE, weight_VE, labels_N, temperature, chunk)  # type: ignore[no-untyped-call]
    return logprobs_N, entropy_N


def _log_softmax_(logits_CV: Tensor) -> Tensor:
    """Log-probs in the logits' own memory, counted from each row's greatest, so that no digits cancel."""
    logits_CV.sub_(logits_CV.amax(-1, keepdim=True))
    return logits_CV.sub_(logits_CV.logsumexp(-1, keepdim=True))


def _entropy(logprobs_CV: Tensor) -> tuple[Tensor, Tensor]:
    """(entropy [C, 1], probs [C, V]). Log-probs of -inf become 0 in place: the limit of p log p, before it is taken."""
    probs_CV = logprobs_CV.exp()
    logprobs_CV.masked_fill_(logprobs_CV == -torch.inf, 0.0)
    return -torch.einsum("cv,cv->c", probs_CV, logprobs_CV)[:, None], probs_CV  # no third [C, V]


def _scored(hidden_CE: Tensor, weight_VE: Tensor, labels_C: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """(logprobs [C], entropy [C]) of one chunk."""
    logprobs_CV = _log_softmax_(head_logits(hidden_CE, weight_VE, temperature))
    chosen_C = logprobs_CV.gather(1, labels_C[:, None])[:, 0]
    return chosen_C, _entropy(logprobs_CV)[0][:, 0]


def _logits_gradient(
    hidden_CE: Tensor, weight_VE: Tensor, label_C1: Tensor, temperature: float, upstream: tuple[Tensor, Tensor]
) -> Tensor:
    """[C, V] in the inputs' dtype: d logprob / d logits = onehot - p, d entropy / d logits = -p (log p + H)."""
    grad_lp_C1, grad_ent_C1 = upstream
    logprobs_CV = _log_softmax_(head_logits(hidden_CE, weight_VE, temperature))
    entropy_C1, probs_CV = _entropy(logprobs_CV)
    grad_CV = logprobs_CV.add_(entropy_C1).mul_(-grad_ent_C1).sub_(grad_lp_C1).mul_(probs_CV)
    grad_CV.scatter_add_(1, label_C1, grad_lp_C1)
    return (grad_CV if temperature == 1.0 else grad_CV.div_(temperature)).to(hidden_CE.dtype)


class _TokenLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden_NE: Tensor, weight_VE: Tensor, labels_N: Tensor, temperature: float, chunk: int
    ) -> tuple[Tensor, Tensor]:
        dtype = accumulate_dtype(hidden_NE.dtype)
        logprobs_N = hidden_NE.new_empty(labels_N.shape, dtype=dtype)
        entropy_N = torch.empty_like(logprobs_N)
        for rows in _chunks(len(labels_N), chunk):
            logprobs_N[rows], entropy_N[rows] = _scored(hidden_NE[rows], weight_VE, labels_N[rows], temperature)
        ctx.save_for_backward(hidden_NE, weight_VE, labels_N)
        ctx.temperature, ctx.chunk = temperature, chunk
        return logprobs_N, entropy_N

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        grad_logprobs_N, grad_entropy_N = grads
        hidden_NE, weight_VE, labels_N = ctx.saved_tensors
        grad_hidden_NE = torch.zeros_like(hidden_NE)
        grad_weight_VE = torch.zeros_like(weight_VE, dtype=accumulate_dtype(weight_VE.dtype))
        for rows in _chunks(len(labels_N), ctx.chunk):
            upstream = (grad_logprobs_N[rows, None], grad_entropy_N[rows, None])
            grad_CV = _logits_gradient(hidden_NE[rows], weight_VE, labels_N[rows, None], ctx.temperature, upstream)
            grad_hidden_NE[rows] = grad_CV @ weight_VE
            grad_weight_VE += grad_CV.T @ hidden_NE[rows]
            del grad_CV  # before the next chunk's logits are made
        return grad_hidden_NE, grad_weight_VE.to(weight_VE.dtype), None, None, None


def _chunks(length: int, size: int) -> list[slice]:
    return [slice(start, start + size) for start in range(0, length, size)]
