"""e1-temperature: sampler and trainer both take log softmax(logits / T) (PrimeIntellect-ai/prime-rl#697)."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
import torch

from surefoot.engines.inprocess.engine import InProcessEngine
from surefoot.engines.inprocess.sampling import choose
from surefoot.nn.attention import PackedLayout
from surefoot.nn.logprobs import head_logits, token_logprobs
from surefoot.nn.model import PackedInputs, load_model
from surefoot.types.rollout import Request, Sampling

CPU = torch.device("cpu")
WEIGHT = torch.tensor([[2.0], [1.0], [0.0]])  # with a hidden state of 1 these are the logits


def test_handed_values() -> None:
    logits = head_logits(torch.ones(1, 1), WEIGHT, 0.5)
    token, sampled = choose(logits, torch.tensor([0.0], dtype=torch.float64))
    trained, entropy = token_logprobs(torch.ones(1, 1), WEIGHT, torch.tensor([0]), temperature=0.5)
    probabilities = torch.tensor([4.0, 2.0, 0.0]).softmax(-1)
    assert token.item() == 0
    assert sampled.item() == pytest.approx(-0.14293163, abs=1e-7)
    assert trained.item() == pytest.approx(-0.14293163, abs=1e-7)
    assert (trained - sampled).exp().item() == pytest.approx(1.0, abs=1e-6)
    assert entropy.item() == pytest.approx(-(probabilities * probabilities.log()).sum().item(), abs=1e-6)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.5])
def test_the_ratio_of_an_unchanged_policy_is_one(model_folder: Path, temperature: float) -> None:
    model = load_model(str(model_folder), CPU)
    engine = InProcessEngine(model, decode=str, eos_ids=frozenset([2]), max_slots=4, shared=True)
    rng = np.random.default_rng(3)
    prompts = [rng.integers(3, 31, n).astype(np.int32) for n in (2, 9, 5, 17, 3, 30)]

    async def sample() -> list:
        return await asyncio.gather(
            *(engine.generate(Request(p, Sampling(temperature, 24, ()), i)) for i, p in enumerate(prompts))
        )

    generations = asyncio.run(sample())
    rows, labels, ids, positions, start = [], [], [], [], 0
    for prompt, generation in zip(prompts, generations, strict=True):
        whole = np.concatenate([prompt, generation.token_ids_C])
        rows += range(start + len(prompt) - 1, start + len(whole) - 1)
        labels += generation.token_ids_C.tolist()
        ids += whole.tolist()
        positions += range(len(whole))
        start += len(whole)
    lengths = [len(p) + len(g.token_ids_C) for p, g in zip(prompts, generations, strict=True)]
    inputs = PackedInputs(
        *(torch.tensor(x) for x in (ids, positions)),
        PackedLayout(lengths, CPU),
        torch.tensor(rows),
        torch.tensor(labels),
    )
    with torch.no_grad():
        trained, _ = model(inputs, temperature, 16)
    gap = trained - torch.from_numpy(np.concatenate([g.logprobs_C for g in generations]))
    assert gap.abs().max() < 1e-5
    assert abs(gap.exp().mean().item() - 1) < 1e-5
