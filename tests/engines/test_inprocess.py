"""The in-process engine: reproducible sampling, ends told apart, versions, refusals."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
import torch

from surefoot.engines.inprocess.engine import InProcessEngine
from surefoot.engines.inprocess.sampling import choose, choose_greedy, philox, uniforms
from surefoot.nn.model import CausalLM, load_model
from surefoot.types.errors import EngineError, WeightSyncError
from surefoot.types.rollout import Generation, Request, Sampling

CPU = torch.device("cpu")
ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDE"


def decode(ids: object) -> str:
    return "".join(ALPHABET[i] for i in ids)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def model(model_folder: Path) -> CausalLM:
    return load_model(str(model_folder), CPU)


def engine(model: CausalLM, *, slots: int = 8, eos: frozenset[int] = frozenset([2])) -> InProcessEngine:
    return InProcessEngine(model, decode=decode, eos_ids=eos, max_slots=slots, shared=True)


def requests(number: int, *, stop: tuple[str, ...] = (), tokens: int = 20, temperature: float = 1.0) -> list[Request]:
    rng = np.random.default_rng(7)
    prompts = [rng.integers(3, 31, rng.integers(1, 40)).astype(np.int32) for _ in range(max(1, number // 4))]
    return [Request(prompts[i % len(prompts)], Sampling(temperature, tokens, stop), 100 + i) for i in range(number)]


def sample(engine: InProcessEngine, wanted: list[Request]) -> list[Generation]:
    async def all_at_once() -> list[Generation]:
        return await asyncio.gather(*(engine.generate(request) for request in wanted))

    return asyncio.run(all_at_once())


def same(one: Generation, other: Generation) -> bool:
    close = (
        np.abs(one.logprobs_C - other.logprobs_C).max() < 1e-5
        if len(one.logprobs_C) == len(other.logprobs_C)
        else False
    )
    return np.array_equal(one.token_ids_C, other.token_ids_C) and one.stop == other.stop and bool(close)


def test_philox_known_answers() -> None:
    """The test vectors published with the generator (Random123, kat_vectors, philox4x32-10)."""
    ones = 0xFFFFFFFF
    vectors = {
        ((0, 0, 0, 0), (0, 0)): (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
        ((ones,) * 4, (ones,) * 2): (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)): (
            0xD16CFE09,
            0x94FDCCEB,
            0x5001E420,
            0x24126EA1,
        ),
    }
    for (counter, key), right in vectors.items():
        words = tuple(np.array([w], np.uint64) for w in counter), tuple(np.array([w], np.uint64) for w in key)
        assert tuple(int(w[0]) for w in philox(*words)) == right


def test_uniforms_depend_on_seed_and_position_alone() -> None:
    numbers = uniforms([1, 2, 2**62 + 1, 1], [0, 5, 5, 2**33])
    assert numbers.tolist() == [uniforms([s], [p])[0] for s, p in ((1, 0), (2, 5), (2**62 + 1, 5), (1, 2**33))]
    many = uniforms(list(range(4000)), [3] * 4000)
    assert many.min() >= 0 and many.max() < 1 and len(set(many.tolist())) == 4000
    assert abs(many.mean() - 0.5) < 4 * (1 / 12 / 4000) ** 0.5


def test_choose_follows_the_distribution() -> None:
    """Frequencies over 20,000 numbers are within 4 standard errors; impossible tokens never come."""
    probabilities = torch.tensor([0.0, 0.5, 0.0, 0.3, 0.2, 0.0])
    logits = probabilities.log()[None].expand(20_000, -1)
    tokens, logprobs = choose(logits, torch.from_numpy(uniforms(list(range(20_000)), [0] * 20_000)))
    counts = torch.bincount(tokens, minlength=6) / 20_000
    assert (counts[probabilities == 0] == 0).all()
    assert ((counts - probabilities).abs() <= 4 * (probabilities * (1 - probabilities) / 20_000).sqrt()).all()
    assert torch.allclose(logprobs, probabilities.log()[tokens])


@pytest.mark.parametrize("number", [0.0, 1 - 2.0**-53])
def test_the_ends_of_the_interval_choose_possible_tokens(number: float) -> None:
    logits = torch.tensor([[-torch.inf, 1.0, 2.0, -torch.inf]])
    token, logprob = choose(logits, torch.tensor([number], dtype=torch.float64))
    assert token.item() in (1, 2) and logprob.isfinite()


def test_greedy() -> None:
    token, logprob = choose_greedy(torch.tensor([[0.0, 3.0, 1.0]]))
    assert (token.item(), logprob.item()) == (1, 0.0)


@pytest.fixture(scope="module")
def alone(model: CausalLM) -> list[Generation]:
    return [sample(engine(model), [request])[0] for request in requests(16)]


@pytest.mark.parametrize("slots", [1, 3, 16])
def test_tokens_depend_on_the_seed_not_on_the_neighbours(model: CausalLM, alone: list[Generation], slots: int) -> None:
    """Alone, with 15 neighbours, in any order, with slots refilled: the same tokens."""
    wanted = requests(16)
    together = sample(engine(model, slots=16), wanted)
    few_slots = sample(engine(model, slots=slots), wanted[::-1])[::-1]
    assert all(same(a, b) and same(a, c) for a, b, c in zip(together, alone, few_slots, strict=True))
    assert len({tuple(g.token_ids_C) for g in together}) > 12  # and different seeds differ


def test_ends_are_told_apart(model: CausalLM) -> None:
    eos = engine(model, eos=frozenset([2, 9]))
    for generation in sample(eos, requests(32)):
        inside = set(generation.token_ids_C[:-1]) & {2, 9}
        ended = generation.token_ids_C[-1] in (2, 9)
        assert not inside
        assert (generation.stop == "eos") == ended
        assert generation.stop != "length" or len(generation.token_ids_C) == 20
    assert {g.stop for g in sample(eos, requests(32))} == {"eos", "length"}


def test_an_end_token_at_the_limit_is_an_end(model: CausalLM) -> None:
    everything = frozenset(range(31))
    assert [g.stop for g in sample(engine(model, eos=everything), requests(4, tokens=1))] == ["eos"] * 4


def test_stop_strings_end_with_the_token_that_completes_them(model: CausalLM) -> None:
    stops = ("k", "qe", "mn")
    generations = sample(engine(model, eos=frozenset()), requests(64, stop=stops, tokens=40))
    texts = [decode(g.token_ids_C) for g in generations]
    for generation, text in zip(generations, texts, strict=True):
        assert (generation.stop == "stop_string") == any(s in text for s in stops)
        assert not any(s in text[:-1] for s in stops)
    assert "stop_string" in {g.stop for g in generations}


def test_greedy_repeats_whatever_the_seed(model: CausalLM) -> None:
    request = requests(1, temperature=0.0)[0]
    other = Request(request.prompt_ids_L, request.sampling, 5)
    first, second = sample(engine(model), [request, other])
    assert np.array_equal(first.token_ids_C, second.token_ids_C)
    assert not first.logprobs_C.any()


def test_records_are_aligned_and_carry_the_version(model: CausalLM) -> None:
    running = engine(model)
    running.advance(0)
    running.advance(3)
    for generation in sample(running, requests(8)):
        sizes = {len(generation.token_ids_C), len(generation.logprobs_C), len(generation.versions_C)}
        assert len(sizes) == 1
        assert set(generation.versions_C.tolist()) == {3}
        assert (generation.logprobs_C <= 0).all()


def test_a_version_is_published_once(model: CausalLM) -> None:
    running = engine(model)
    running.advance(0)
    with pytest.raises(WeightSyncError, match="published already"):
        running.advance(0)


def test_weights_do_not_change_under_a_rollout(model: CausalLM) -> None:
    running = engine(model)

    async def race() -> None:
        task = asyncio.ensure_future(running.generate(requests(1)[0]))
        await asyncio.sleep(0)
        with pytest.raises(WeightSyncError, match="running"):
            running.advance(0)
        await task

    asyncio.run(race())


def test_non_finite_logits_are_an_error_for_every_caller(model_folder: Path) -> None:
    broken = load_model(str(model_folder), CPU)
    with torch.no_grad():
        broken.hf.model.norm.weight[0] = torch.nan
    running = engine(broken)

    async def all_fail() -> list[object]:
        return await asyncio.gather(*(running.generate(r) for r in requests(12)), return_exceptions=True)

    assert all(isinstance(result, EngineError) for result in asyncio.run(all_fail()))


def test_a_former_tenant_s_nan_does_not_reach_the_next(model_folder: Path) -> None:
    """Slots are zeroed when they are filled: a cached NaN times a weight of 0 would be NaN again."""
    running = engine(load_model(str(model_folder), CPU), slots=4)
    before = sample(running, requests(4))
    for keys, values in running.cache.layers.values():
        keys.fill_(torch.nan)
        values.fill_(torch.nan)
    after = sample(running, requests(4))
    assert all(same(a, b) for a, b in zip(before, after, strict=True))


def test_temperatures_can_be_mixed(model: CausalLM) -> None:
    hot, cold = requests(6), requests(6, temperature=0.6)
    mixed = sample(engine(model, slots=16), [r for pair in zip(hot, cold, strict=True) for r in pair])
    apart = [g for pair in zip(sample(engine(model), hot), sample(engine(model), cold), strict=True) for g in pair]
    assert all(same(a, b) for a, b in zip(mixed, apart, strict=True))


def test_a_failure_while_prompts_are_computed_reaches_every_caller(
    model: CausalLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Out of memory in the second prefill: nobody waits for ever, and the engine can be used again."""
    running, calls = engine(model, slots=4), []
    prefill = InProcessEngine._prefill

    def fail_second(self: InProcessEngine, *arguments: object) -> torch.Tensor:
        calls.append(1)
        if len(calls) == 2:
            raise torch.OutOfMemoryError("no memory")
        return prefill(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(InProcessEngine, "_prefill", fail_second)

    async def all_end() -> list[object]:
        made = asyncio.gather(*(running.generate(r) for r in requests(12)), return_exceptions=True)
        return await asyncio.wait_for(made, 20)

    results = asyncio.run(all_end())
    assert any(isinstance(result, torch.OutOfMemoryError) for result in results)
    assert all(isinstance(result, (Generation, torch.OutOfMemoryError)) for result in results)
    assert all(isinstance(result, Generation) for result in sample(running, requests(3)))
