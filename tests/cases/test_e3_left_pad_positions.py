"""e3-left-pad-positions: a row's log-probs do not depend on what shares its batch (huggingface/trl#6800).

There is no left padding here: samples are packed with positions of their own. Learned absolute positions show whether
they are right, in the trainer's packing and in the sampler's prefill and decode.
"""

import asyncio
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import GPT2LMHeadModel

from support import save_model
from surefoot.engines.inprocess.engine import InProcessEngine
from surefoot.nn.attention import PackedLayout
from surefoot.nn.model import PackedInputs, load_model
from surefoot.types.rollout import Request, Sampling

CPU = torch.device("cpu")
IDS = [6, 7, 8, 9]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("gpt2"), kind="gpt2", spread=0.5)


def alone(folder: Path, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        logits = GPT2LMHeadModel.from_pretrained(folder, attn_implementation="eager").eval()(torch.tensor([ids])).logits
    return logits[0, :-1].log_softmax(-1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0]


@pytest.mark.parametrize("before", [[], [5], [5, 12], [1, 1, 30]])
@pytest.mark.parametrize("after", [[], [9], [40, 2]])
def test_packed_in_any_company(folder: Path, before: list[int], after: list[int]) -> None:
    model = load_model(str(folder), CPU)
    lengths = [*before, len(IDS), *after]
    rows = [IDS if i == len(before) else list(range(3, 3 + n))[:n] for i, n in enumerate(lengths)]
    rows = [[token % 31 for token in row] for row in rows]
    start = sum(before)
    ids = torch.tensor([token for row in rows for token in row])
    positions = torch.cat([torch.arange(n) for n in lengths])
    inputs = PackedInputs(
        ids, positions, PackedLayout(lengths, CPU), torch.arange(start, start + 3), torch.tensor(IDS[1:])
    )
    with torch.no_grad():
        logprobs, _ = model(inputs, 1.0, 64)
    assert (logprobs - alone(folder, IDS)).abs().max() < 1e-5


def test_the_model_can_show_a_wrong_position(folder: Path) -> None:
    model = load_model(str(folder), CPU)
    inputs = PackedInputs(
        torch.tensor(IDS), torch.arange(2, 6), PackedLayout([4], CPU), torch.arange(3), torch.tensor(IDS[1:])
    )
    with torch.no_grad():
        assert (model(inputs, 1.0, 64)[0] - alone(folder, IDS)).abs().max() > 0.1


def test_sampled_in_any_company(folder: Path) -> None:
    model = load_model(str(folder), CPU)
    engine = InProcessEngine(model, decode=str, eos_ids=frozenset(), max_slots=8, shared=True)
    prompts = [IDS, [3], list(range(3, 20)), [8, 8]]

    async def sample() -> list:
        requests = [Request(np.array(p, np.int32), Sampling(1.0, 9, ()), seed) for seed, p in enumerate(prompts)]
        return await asyncio.gather(*(engine.generate(request) for request in requests))

    for prompt, generation in zip(prompts, asyncio.run(sample()), strict=True):
        whole = [*prompt, *generation.token_ids_C.tolist()]
        right = alone(folder, whole)[len(prompt) - 1 :]
        assert (torch.from_numpy(generation.logprobs_C) - right).abs().max() < 1e-5
