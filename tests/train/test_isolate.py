"""Which sample is behind a number that is not finite, and what of it, for one and for two ranks."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from isolating import LENGTHS, SOME_BAD, STAGES, bad_gradient, clean_samples, marked
from surefoot.config.schema import AlgoConfig, TrainConfig
from surefoot.train.isolate import find_nonfinite_samples
from surefoot.train.prepare import Scores, build_batch, score
from surefoot.train.roles import Role
from surefoot.train.step import Trainer
from surefoot.types.rollout import Sample, SampleRef
from surefoot.types.train import Batch
from trainers import attempt, config_of, load_role, same, snapshot, trainer_of

RANKS_SCRIPT = Path(__file__).with_name("ranks_isolate.py")
INPUTS = {"advantage": "advantages_L", "sampler's log-prob": "behavior_logprobs_L", "old log-prob": "old"}
VALUES = [np.nan, np.inf, -np.inf]


@pytest.fixture(scope="module")
def policy(model_folder: Path) -> Role:
    return load_role(model_folder)


def make(policy: Role, compute: str = "fp32", *, kl_coef: float = 0.1, max_tokens: int = 48) -> Trainer:
    config = config_of(
        compute, algo=AlgoConfig(kl_coef=kl_coef), train=TrainConfig(max_tokens=max_tokens, updates_per_rollout=2)
    )
    return trainer_of(policy, config, reference=policy)


def batch_of(trainer: Trainer, samples: list[Sample], scores: Scores | None = None, *, ranks: int = 1) -> Batch:
    """Scored by healthy weights; `ranks` rows of micro-batches."""
    scores = scores or score(samples, trainer.roles, trainer.config, 0)
    policy = trainer.roles.policy
    spread = dataclasses.replace(policy, world=dataclasses.replace(policy.world, size=ranks))
    return build_batch(samples, scores, trainer.config, spread)


def poison(
    trainer: Trainer, samples: list[Sample], number: int, what: str, value: float, *, trained: bool = True
) -> tuple[list[Sample], Scores]:
    """One token of one sample holds `value` in the column called `what`."""
    scores = score(samples, trainer.roles, trainer.config, 0)
    sample = samples[number]
    at = len(sample.token_ids_L) - 1 if trained else 1
    assert sample.loss_mask_L[at] == trained
    if what in ("old log-prob", "reference"):
        column = dict(scores.old if what == "old log-prob" else scores.reference)
        column[sample.ref] = column[sample.ref].copy()
        column[sample.ref][at] = value
        return samples, dataclasses.replace(scores, **{"reference" if what == "reference" else "old": column})
    array = getattr(sample, INPUTS[what]).copy()
    array[at] = value
    bad = dataclasses.replace(sample, **{INPUTS[what]: array})
    return [*samples[:number], bad, *samples[number + 1 :]], scores


def count_tokens(trainer: Trainer) -> list[int]:
    """Grows by the positions of every forward pass of this trainer's own model."""
    seen: list[int] = []
    trainer.roles.policy.model.register_forward_pre_hook(lambda _, given: seen.append(len(given[0].input_ids_T)))
    return seen


def positions(batch: Batch) -> int:
    return sum(len(microbatch.input_ids_T) for row in batch.microbatches_RM for microbatch in row)


def refs(samples: list[Sample], *numbers: int) -> list[SampleRef]:
    return [samples[number].ref for number in numbers]


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("what", INPUTS)
def test_an_input_is_named_without_a_forward_pass(policy: Role, what: str, value: float, ranks: int) -> None:
    trainer = make(policy)
    for number in range(len(LENGTHS)):
        samples, scores = poison(trainer, clean_samples(), number, what, value)
        batch = batch_of(trainer, samples, scores, ranks=ranks)
        ran = count_tokens(trainer)
        assert len(batch.microbatches_RM) == ranks
        assert find_nonfinite_samples(trainer, batch) == {samples[number].ref: what}
        assert not ran


@pytest.mark.parametrize("what", INPUTS)
def test_an_input_of_a_token_that_does_not_train_is_no_matter(policy: Role, what: str) -> None:
    trainer = make(policy)
    samples, scores = poison(trainer, clean_samples(), 2, what, np.nan, trained=False)
    batch = batch_of(trainer, samples, scores)
    assert find_nonfinite_samples(trainer, batch) == {}
    assert attempt(trainer, batch).verdict == "applied"


def test_several_inputs_of_several_samples(policy: Role) -> None:
    trainer = make(policy)
    samples, _ = poison(trainer, clean_samples(), 1, "advantage", np.nan)
    samples, _ = poison(trainer, samples, 1, "sampler's log-prob", -np.inf)
    samples, scores = poison(trainer, samples, 4, "old log-prob", np.inf)
    for ranks in (1, 2):
        found = find_nonfinite_samples(trainer, batch_of(trainer, samples, scores, ranks=ranks))
        assert found == {samples[1].ref: "advantage, sampler's log-prob", samples[4].ref: "old log-prob"}


@pytest.mark.parametrize("value", VALUES)
def test_a_reference_log_prob_shows_in_the_loss(policy: Role, value: float) -> None:
    """Where its coefficient is 0 it is a metric only, and no reason to drop anything."""
    for kl_coef in (0.1, 0.0):
        trainer = make(policy, kl_coef=kl_coef)
        samples, scores = poison(trainer, clean_samples(), 3, "reference", value)
        batch = batch_of(trainer, samples, scores)
        found = find_nonfinite_samples(trainer, batch)
        assert found == ({samples[3].ref: "loss"} if kl_coef else {})
        assert attempt(trainer, batch).reason == ("nonfinite_loss" if kl_coef else "ok")


@pytest.mark.parametrize("compute", ["fp32", "fp16"])
@pytest.mark.parametrize("max_tokens", [30, 4096])  # a few samples a micro-batch, and all in one
@pytest.mark.parametrize("bad", SOME_BAD, ids=str)
@pytest.mark.parametrize("stage", STAGES)
def test_a_sample_the_model_fails_on(
    policy: Role,
    stage: str,
    bad: list[int],
    max_tokens: int,
    compute: str,
) -> None:
    """By the first stage that shows it, in two passes at most, and nothing is changed by looking."""
    trainer = make(policy, compute, max_tokens=max_tokens)
    samples = marked(clean_samples(), bad)
    batch = batch_of(trainer, samples)  # scored while the model is well
    handle = STAGES[stage](trainer.roles.policy.model)
    before, numbers = snapshot(trainer), trainer.scaler.state_dict()
    ran = count_tokens(trainer)
    found = find_nonfinite_samples(trainer, batch)
    handle.remove()
    assert found == dict.fromkeys(refs(samples, *bad), stage)
    assert same(before, snapshot(trainer)) and not trainer.masters.gradients()
    assert (trainer.scaler.state_dict(), trainer.updates) == (numbers, 0)
    twice = sum(
        len(microbatch.input_ids_T)
        for microbatch in batch.microbatches_RM[0]
        if set(microbatch.sample_ids_T) & set(bad)
    )
    assert sum(ran) == positions(batch) + twice <= 2 * positions(batch)
    assert len(batch.microbatches_RM[0]) == (1 if max_tokens == 4096 else 3)


def test_an_input_comes_before_what_only_the_model_shows(policy: Role) -> None:
    """The batch without the first then names the second."""
    trainer = make(policy)
    samples, scores = poison(trainer, marked(clean_samples(), [4]), 1, "advantage", np.nan)
    batch = batch_of(trainer, samples, scores)
    bad_gradient(trainer.roles.policy.model)
    assert find_nonfinite_samples(trainer, batch) == {samples[1].ref: "advantage"}
    rest = [sample for sample in samples if sample.ref != samples[1].ref]
    assert find_nonfinite_samples(trainer, batch_of(trainer, rest, scores)) == {samples[4].ref: "gradient"}


def test_no_sample_is_named_where_only_their_sum_overflows(policy: Role) -> None:
    """fp16, two samples alike in one micro-batch: each gradient fits at this scale, both together do not."""
    trainer = make(policy, "fp16", kl_coef=0.0, max_tokens=4096)
    first = clean_samples()[0]
    samples = [first, dataclasses.replace(first, ref=SampleRef(77, 0, 0))]
    both = batch_of(trainer, samples)
    largest = largest_gradient(trainer, both)
    trainer.scaler.restore({**trainer.scaler.state_dict(), "scale": trainer.scaler.loss_scale * 1.5 * 65504 / largest})
    assert trainer.examine(both).gradient
    assert find_nonfinite_samples(trainer, both) == {}
    assert attempt(trainer, both).reason == "overflow"


def largest_gradient(trainer: Trainer, batch: Batch) -> float:
    trainer.backward(batch)
    largest = max(gradient.abs().max().item() for gradient in trainer.masters.gradients())
    trainer.masters.clear_gradients()
    return largest


def test_a_sample_is_run_with_its_weights_in_the_batch(policy: Role, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not with six times as much, which may overflow where the batch did not."""
    trainer = make(policy, max_tokens=4096)
    batch = batch_of(trainer, marked(clean_samples(), [0]))
    parts: list[Batch] = []
    examine = trainer.examine
    monkeypatch.setattr(trainer, "examine", lambda part: [parts.append(part), examine(part)][1])
    bad_gradient(trainer.roles.policy.model)
    find_nonfinite_samples(trainer, batch)
    (whole,), *alone = ([row[0].token_weights_T for row in part.microbatches_RM] for part in parts)
    assert len(alone) == len(LENGTHS)
    assert np.array_equal(np.concatenate([weights_T for (weights_T,) in alone]), whole)


def test_two_real_ranks_name_the_same(model_folder: Path, tmp_path: Path, torchrun: Callable[..., str]) -> None:
    torchrun(RANKS_SCRIPT, str(model_folder), str(tmp_path / "seen"), ranks=2)
    first, second = (json.loads((tmp_path / f"seen-{rank}.json").read_text()) for rank in (0, 1))
    assert len(first) == len(STAGES) * len(SOME_BAD)
    for stage in STAGES:
        for bad in SOME_BAD:
            one, two = first[f"{stage} {bad}"], second[f"{stage} {bad}"]
            assert one["found"] == two["found"] == {str(number): stage for number in bad}
            fillers = len(LENGTHS)  # beside each sample that is run alone
            assert one["ran"] + two["ran"] <= 2 * one["positions"] + fillers
