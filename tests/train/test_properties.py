"""Drawn batches: what must not matter to a step does not, and gradients are those of the loss.

The cut into micro-batches, packing order, fillers and ranks change nothing but rounding; what stands at tokens that do
not train changes nothing at all; derivatives agree with float64 central differences for every choice of AlgoConfig.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args, get_origin

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from support import VOCAB
from surefoot.algos import group_advantages
from surefoot.algos.kl import LOW_VAR_LIMIT, kl_estimate
from surefoot.config.schema import AlgoConfig, TrainConfig
from surefoot.train.pack import make_filler
from surefoot.train.prepare import Scores, build_batch, score, weights_of
from surefoot.train.roles import Role, Roles
from surefoot.train.step import Trainer, TrainerConfig
from surefoot.train.terms import loss_terms
from surefoot.types.rollout import FloatArray, Sample, SampleRef
from surefoot.types.train import Batch, Microbatch
from trainers import config_of, flat, load_role, snapshot, trainer_of

CHOICES = {  # of AlgoConfig's own: a new one is tested as soon as it can be configured
    name: get_args(field.annotation)
    for name, field in AlgoConfig.model_fields.items()
    if get_origin(field.annotation) is Literal
}
ALGOS = [dict(zip(CHOICES, values, strict=True)) for values in itertools.product(*CHOICES.values())]
GARBAGE = np.array([np.nan, np.inf, -np.inf, 1e38, -1e38, 0.0], np.float32)


@dataclasses.dataclass(frozen=True)
class Case:
    """Samples, and what other models say of them as distances from the policy's own log-probs, so that no draw lies
    where rounding decides on which side of a clip edge it is (ratios 0.8 and 1.2, k3 = 10 at q = -2.61)."""

    samples: list[Sample]
    algo: AlgoConfig
    old_shift: list[FloatArray]
    reference_shift: list[FloatArray]

    def config(self, compute: str, max_tokens: int = 4096) -> TrainerConfig:
        return config_of(
            compute,
            algo=self.algo,
            train=TrainConfig(max_tokens=max_tokens, updates_per_rollout=2),
            precision={"init_scale": 8.0},  # k3 at q = -5 weighs 147: at 1024 one such token overflows fp16
        )

    def scores(self, trainer: Trainer) -> Scores:
        """Taken once: every cut is of the same saved numbers."""
        own = score(self.samples, trainer.roles, trainer.config, 0).old
        refs = [sample.ref for sample in self.samples]
        old = {ref: own[ref] + shift.astype(own[ref].dtype) for ref, shift in zip(refs, self.old_shift, strict=True)}
        reference = {
            ref: own[ref] + shift.astype(own[ref].dtype) for ref, shift in zip(refs, self.reference_shift, strict=True)
        }
        return Scores(old, reference, "trainer")


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Ragged samples, some fanned out of one rollout, some training one token or none, some in several turns."""
    shapes = draw(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 12), st.booleans()), min_size=1, max_size=7))
    kinds = draw(st.lists(st.sampled_from(["all", "one", "turns", "none"]), min_size=7, max_size=7))
    algo = AlgoConfig(**draw(st.sampled_from(ALGOS)), kl_coef=draw(st.sampled_from([0.0, 0.1])))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    samples: list[Sample] = []
    for (prompt, completion, joins), kind in zip(shapes, kinds, strict=False):
        last = samples[-1].ref if samples else SampleRef(-1, 0, 0)
        ref = SampleRef(last.group, 0, last.part + 1) if joins and samples else SampleRef(last.group + 1, 0, 0)
        samples.append(make_sample(rng, ref, prompt, completion, kind))
    lengths = [len(sample.token_ids_L) for sample in samples]
    old_shift = [np.where(rng.random(n) < 0.3, apart(rng, 0.3, 1.0, n), apart(rng, 0.0, 0.15, n)) for n in lengths]
    reference_shift = [np.where(rng.random(n) < 0.2, rng.uniform(3, 5, n), rng.uniform(-2, 2, n)) for n in lengths]
    return Case(samples, algo, old_shift, reference_shift)


def apart(rng: np.random.Generator, low: float, high: float, length: int) -> FloatArray:
    return rng.uniform(low, high, length) * rng.choice([-1.0, 1.0], length)


def make_sample(rng: np.random.Generator, ref: SampleRef, prompt: int, completion: int, kind: str) -> Sample:
    length = prompt + completion
    mask = np.arange(length) >= prompt
    if kind == "one":
        mask = np.arange(length) == rng.integers(prompt, length)
    elif kind == "turns":
        mask &= rng.random(length) < 0.6
    elif kind == "none":
        mask[:] = False
    return Sample(
        ref=ref,
        token_ids_L=rng.integers(3, VOCAB, length).astype(np.int32),
        loss_mask_L=mask,
        behavior_logprobs_L=(-rng.random(length) * 5).astype(np.float32),
        versions_L=np.where(mask, 0, -1).astype(np.int32),
        advantages_L=np.full(length, rng.normal(), np.float32),
    )


@pytest.fixture(scope="module")
def policies(model_folder: Path) -> dict[str, Role]:
    return {"fp64": load_role(model_folder, "fp64"), "fp32": load_role(model_folder)}


def run_rows(trainer: Trainer, batch: Batch) -> tuple[float, Tensor]:
    """(loss, gradient) with the rows of all ranks run here, one after another: a gradient is their sum."""
    loss = 0.0
    for row in batch.microbatches_RM:
        seen = trainer.backward(dataclasses.replace(batch, microbatches_RM=(row,)))
        assert not seen.error
        loss += seen.totals["loss"].item()
    gradient = flat(trainer.masters.gradients())
    trainer.masters.clear_gradients()
    return loss, gradient


def size_of_loss(trainer: Trainer, batch: Batch, case: Case) -> float:
    """Sum of |term| over tokens and terms: what rounding is measured by, because a policy loss cancels near 0."""
    size = trainer.backward(batch).totals["abs_term_sum"].item()
    trainer.masters.clear_gradients()
    weights = weights_of(case.samples, case.algo.aggregation, trainer.config.constant_length)
    for weights_L, shift_L in zip(weights, case.reference_shift, strict=True):
        q_L = torch.from_numpy(-shift_L)
        kl_L = kl_estimate(q_L, torch.zeros_like(q_L), kind=case.algo.kl_kind)
        size += case.algo.kl_coef * (torch.from_numpy(weights_L) * kl_L.abs()).sum().item()
    return size


def with_fillers(batch: Batch, fillers: int) -> Batch:
    more = (make_filler(3, with_reference=True),) * fillers
    rows = tuple((*more, *row) if number % 2 else (*row, *more) for number, row in enumerate(batch.microbatches_RM))
    return dataclasses.replace(batch, microbatches_RM=rows)


@pytest.mark.parametrize(("compute", "gradient_bound", "loss_bound"), [("fp64", 1e-12, 1e-12), ("fp32", 1e-5, 1e-6)])
@settings(max_examples=30, deadline=None)
@given(case=cases(), data=st.data())
def test_cut_order_fillers_and_ranks_do_not_matter(
    policies: dict[str, Role], case: Case, data: st.DataObject, compute: str, gradient_bound: float, loss_bound: float
) -> None:
    lengths = [len(sample.token_ids_L) - 1 for sample in case.samples]
    max_tokens = data.draw(st.integers(max(lengths), sum(lengths)), label="max_tokens")
    ranks, fillers = data.draw(st.integers(1, 4), label="ranks"), data.draw(st.integers(0, 2), label="fillers")
    order = data.draw(st.permutations(range(len(case.samples))), label="order")
    roles = Roles(policies[compute], None)  # shared: nothing is updated here
    whole, cut = (Trainer(roles, case.config(compute, size)) for size in (4096, max_tokens))
    scores = case.scores(whole)
    one = build_batch(case.samples, scores, whole.config, whole.roles.policy)
    assert len(one.microbatches_RM[0]) == 1
    spread = dataclasses.replace(cut.roles.policy, world=dataclasses.replace(cut.world, size=ranks))
    many = build_batch([case.samples[i] for i in order], scores, cut.config, spread)
    assert len(many.microbatches_RM) == ranks
    loss, gradient = run_rows(whole, one)
    other_loss, other = run_rows(cut, with_fillers(many, fillers))
    assert (gradient - other).norm() <= gradient_bound * gradient.norm()
    assert abs(loss - other_loss) <= loss_bound * size_of_loss(whole, one, case)
    assert one.num_tokens == many.num_tokens == sum(int(sample.loss_mask_L.sum()) for sample in case.samples)


def spoilt(array_L: FloatArray, mask_L: np.ndarray, rng: np.random.Generator) -> FloatArray:
    """Each token that does not train holds a garbage of its own."""
    return np.where(mask_L, array_L, rng.choice(GARBAGE, len(array_L)).astype(array_L.dtype))


def spoil(case: Case, scores: Scores, fields: Sequence[str], rng: np.random.Generator) -> tuple[list[Sample], Scores]:
    samples = []
    old, reference = dict(scores.old), dict(scores.reference)
    for sample in case.samples:
        mask_L = sample.loss_mask_L
        own = [name for name in fields if name.endswith("_L")]
        samples.append(
            dataclasses.replace(sample, **{name: spoilt(getattr(sample, name), mask_L, rng) for name in own})
        )
        for name, scored in (("old", old), ("reference", reference)):
            if name in fields:
                scored[sample.ref] = spoilt(scored[sample.ref], mask_L, rng)
    return samples, Scores(old, reference, scores.old_source)


FIELDS = ["behavior_logprobs_L", "advantages_L", "old", "reference"]


@settings(max_examples=30, deadline=None)
@given(
    case=cases(),
    fields=st.lists(st.sampled_from(FIELDS), min_size=1, unique=True),
    seed=st.integers(0, 2**32),
    compute=st.sampled_from(["fp32", "bf16", "fp16"]),
)
def test_garbage_at_untrained_tokens_changes_nothing(
    policies: dict[str, Role], case: Case, fields: list[str], seed: int, compute: str
) -> None:
    """Bit for bit: loss, gradients, verdict, everything reported, and all that an applied attempt leaves behind."""
    config = case.config(compute, max_tokens=40)
    clean, dirty = trainer_of(policies["fp32"], config), trainer_of(policies["fp32"], config)
    scores = case.scores(clean)
    samples, worse = spoil(case, scores, fields, np.random.default_rng(seed))
    right = build_batch(case.samples, scores, config, clean.roles.policy)
    batch = build_batch(samples, worse, config, dirty.roles.policy)
    (loss, gradient), (other_loss, other) = run_rows(clean, right), run_rows(dirty, batch)
    assert loss == other_loss and torch.equal(gradient, other)
    report, other_report = (t.attempt(b, step=1, attempt=0, version=0) for t, b in ((clean, right), (dirty, batch)))
    assert report.verdict == ("applied" if right.num_tokens else "skipped")
    assert repr(other_report) == repr(report)  # every field and metric, NaN equal to NaN
    before, after = snapshot(clean), snapshot(dirty)
    assert all(torch.equal(before[name], after[name]) for name in before)


def near(value_N: np.ndarray, *edges: float) -> np.ndarray:
    return np.any([np.abs(value_N - edge) < 1e-3 for edge in edges], axis=0)


def away_from_kinks(logprobs_N: FloatArray, old_N: FloatArray, reference_N: FloatArray, algo: AlgoConfig) -> np.ndarray:
    """Tokens not within 1e-3 of a clip edge, of a bound on a log-ratio or of low_var_kl's limit: the others are left
    out, because a difference across a kink is no derivative."""
    shift_N, q_N = logprobs_N - old_N, logprobs_N - reference_N
    bound = algo.log_ratio_bound
    return ~(
        near(np.exp(shift_N), 1 - algo.clip_low, 1 + algo.clip_high)
        | near(np.abs(shift_N), bound)
        | near(np.abs(q_N), bound)
        | near(np.expm1(-q_N) + q_N, LOW_VAR_LIMIT)
    )


def drawn_tokens(seed: int, algo: AlgoConfig) -> tuple[Microbatch, Tensor]:
    """A micro-batch of trainable tokens in float64, and log-probs for it: ratios on every side of clip and bound,
    q on every side of both limits, advantages of both signs and 0 from the configured estimator."""
    rng = np.random.default_rng(seed)
    count = 24
    logprobs_N = -rng.random(count) * 5
    old_N = logprobs_N - rng.choice([0.1, 0.5, 4.0], count) * rng.uniform(-1, 1, count)
    reference_N = logprobs_N - rng.choice([0.1, 2.5, 4.0], count) * rng.uniform(-1, 1, count)
    keep = away_from_kinks(logprobs_N, old_N, reference_N, algo)
    logprobs_N, old_N, reference_N = logprobs_N[keep], old_N[keep], reference_N[keep]
    count = len(logprobs_N)
    rollouts = np.arange(count) % 5
    rewards = torch.from_numpy(np.append(rng.random(4), 0.5))
    advantages = group_advantages(rewards, torch.tensor([0, 0, 0, 0, 1]), estimator=algo.estimator)
    samples = [
        make_sample(rng, SampleRef(i, 0, 0), 1, int((rollouts == i).sum()), "all") for i in range(5)
    ]  # only for their token weights
    weights = weights_of(samples, algo.aggregation, 7)
    order = np.argsort(rollouts, kind="stable")
    nothing = np.zeros(count, np.int32)
    return Microbatch(
        input_ids_T=nothing,
        labels_T=nothing,
        positions_T=nothing,
        cu_seqlens_S1=np.array([0, count], np.int32),
        sample_ids_T=rollouts[order].astype(np.int32),
        loss_mask_T=np.ones(count, bool),
        token_weights_T=np.concatenate([weights_L[1:] for weights_L in weights]),
        behavior_logprobs_T=(old_N - rng.choice([0.3, 4.0], count) * rng.uniform(-1, 1, count)).astype(np.float32),
        old_logprobs_T=old_N,
        reference_logprobs_T=reference_N,
        advantages_T=advantages.numpy()[rollouts[order]],
    ), torch.from_numpy(logprobs_N)


@pytest.mark.parametrize("number", range(len(ALGOS)), ids=["-".join(choice.values()) for choice in ALGOS])
def test_gradients_are_central_differences(number: int) -> None:
    """For every choice that AlgoConfig offers. A choice with a stop-gradient factor of the log-probs themselves (none
    is configurable yet) fails here until that factor is frozen."""
    algo = AlgoConfig(**ALGOS[number], kl_coef=0.7, log_ratio_bound=3.0)  # exp(20) would drown the differences
    microbatch, logprobs_N = drawn_tokens(number, algo)
    entropy_N = torch.zeros_like(logprobs_N)

    def loss(x_N: Tensor) -> Tensor:
        return loss_terms(microbatch, x_N, entropy_N, algo=algo)[0]

    at_N = logprobs_N.clone().requires_grad_()
    loss(at_N).backward()
    assert at_N.grad is not None
    step = 1e-5
    nudges_NN = torch.eye(len(logprobs_N), dtype=torch.float64) * step
    right_N = torch.stack([(loss(logprobs_N + d_N) - loss(logprobs_N - d_N)) / (2 * step) for d_N in nudges_NN])
    assert len(right_N) > 15 and right_N.count_nonzero() > 5
    assert (at_N.grad - right_N).abs().max() < 1e-8 * right_N.abs().max().clamp(min=1.0)


def test_every_choice_was_found() -> None:
    """By the names of today: a choice that is no Literal any more would leave the enumeration without a word."""
    assert CHOICES.keys() >= {"estimator", "correction", "kl_kind", "aggregation"}
    assert len(ALGOS) >= 72
