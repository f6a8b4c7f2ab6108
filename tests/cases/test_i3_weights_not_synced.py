"""i3-weights-not-synced: after a sync the sampler has the trainer's weights, all of them, or the version does not move.

Source: verl-project/verl#7495. In-process: full weights, tied and untied heads, two updates before one sync, tensors
dropped, altered or invented on the way to the copy. Parameters shared with the trainer are the zero-copy case.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from support import make_samples, save_model
from surefoot.config.schema import AlgoConfig, OptimConfig, PrecisionConfig, TrainConfig
from surefoot.engines.inprocess.engine import InProcessEngine
from surefoot.nn.attention import PackedLayout
from surefoot.nn.model import CausalLM, PackedInputs, load_model
from surefoot.train.prepare import build_batch, score
from surefoot.train.roles import Roles, load_policy
from surefoot.train.shard import World
from surefoot.train.step import Trainer, TrainerConfig
from surefoot.types.errors import WeightSyncError
from surefoot.types.rollout import Generation, Request, Sampling
from surefoot.weights.plan import gathered, manifest
from surefoot.weights.publish import CopiedWeights, SharedWeights

CPU = torch.device("cpu")
PROBE = np.array([5, 9, 3, 17], np.int32)


@pytest.fixture(params=[True, False], ids=["tied", "untied"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return save_model(tmp_path, tied=request.param)


def build_trainer(folder: Path, compute: str = "fp32") -> Trainer:
    precision = PrecisionConfig(compute=compute)
    role = load_policy(str(folder), World(0, 1, CPU), precision)
    return Trainer(
        Roles(role, None),
        TrainerConfig(TrainConfig(), AlgoConfig(correction="none"), OptimConfig(lr=0.03), precision, 1.0, 0, 0),
    )


def update(trainer: Trainer) -> None:
    samples = make_samples([(3, 9), (4, 20), (2, 14)])
    batch = build_batch(
        samples,
        score(samples, trainer.roles, trainer.config, trainer.roles.policy),
        trainer.config,
        trainer.roles.policy,
    )
    assert trainer.attempt(batch, step=1, attempt=0, version=0).verdict == "applied"


def engine_of(model: CausalLM, *, shared: bool) -> InProcessEngine:
    return InProcessEngine(model, decode=str, eos_ids=frozenset(), max_slots=4, shared=shared)


def sample(engine: InProcessEngine) -> Generation:
    return asyncio.run(engine.generate(Request(PROBE, Sampling(1.0, 12, ()), 3)))


def trainer_logprobs(trainer: Trainer, generation: Generation) -> torch.Tensor:
    ids = torch.from_numpy(np.concatenate([PROBE, generation.token_ids_C])).long()
    rows = torch.arange(len(PROBE) - 1, len(ids) - 1)
    inputs = PackedInputs(ids, torch.arange(len(ids)), PackedLayout([len(ids)], CPU), rows, ids[rows + 1])
    with torch.no_grad():
        logprobs: torch.Tensor = trainer.roles.policy.model(inputs, 1.0, 64)[0]
    return logprobs


def gap(trainer: Trainer, generation: Generation) -> float:
    """max |sampler - trainer| on what was just sampled."""
    return (trainer_logprobs(trainer, generation) - torch.from_numpy(generation.logprobs_C)).abs().max().item()


def test_a_copy_follows_two_updates_and_one_sync(folder: Path) -> None:
    trainer = build_trainer(folder)
    engine = engine_of(load_model(str(folder), CPU), shared=False)
    publisher = CopiedWeights(trainer.roles.policy.model, engine, torch.float32)
    publisher.publish(0)
    before = sample(engine)
    assert gap(trainer, before) < 1e-5
    for _ in range(2):
        update(trainer)
    assert gap(trainer, before) > 0.1  # the updates move the probe, so a sync that does nothing shows
    assert gap(trainer, sample(engine)) > 0.1  # and until the sync the copy is the old policy
    publisher.publish(1)
    after = sample(engine)
    assert gap(trainer, after) < 1e-5
    assert set(after.versions_C.tolist()) == {1} and set(before.versions_C.tolist()) == {0}


@pytest.mark.parametrize("compute", ["fp32", "bf16"])
def test_shared_parameters_follow_without_a_byte(folder: Path, compute: str) -> None:
    trainer = build_trainer(folder, compute)
    engine = engine_of(trainer.roles.policy.model, shared=True)
    publisher = SharedWeights(engine)
    publisher.publish(0)
    before = sample(engine)
    for version in (1, 2):
        update(trainer)
        publisher.publish(version)
        bound = 1e-5 if compute == "fp32" else 0.2
        assert gap(trainer, sample(engine)) < bound
    assert gap(trainer, before) > 0.1


@torch.no_grad()
def nudge(model: CausalLM) -> None:
    """An update's worth, without its cost."""
    for param in model.parameters():
        param.mul_(1.01)


def spoilt(kind: str, tensors: Iterator[tuple[str, torch.Tensor]], number: int) -> Iterator[tuple[str, torch.Tensor]]:
    for index, (name, tensor) in enumerate(tensors):
        if index != number:
            yield name, tensor
        elif kind == "altered":
            yield name, tensor + 1e-3
        elif kind == "renamed":
            yield name + ".lora_A", tensor
        # dropped: nothing


@pytest.mark.parametrize("kind", ["dropped", "altered", "renamed"])
def test_any_tensor_that_does_not_arrive_is_named(folder: Path, kind: str) -> None:
    trainer = build_trainer(folder)
    engine = engine_of(load_model(str(folder), CPU), shared=False)
    policy = trainer.roles.policy.model
    publisher = CopiedWeights(policy, engine, torch.float32)
    publisher.publish(0)
    for number, (name, _) in enumerate(policy.named_parameters()):
        nudge(policy)
        sent = spoilt(kind, gathered(policy, torch.float32), number)
        with pytest.raises(WeightSyncError, match=name.replace(".", r"\.")):
            engine.set_weights(manifest(policy, torch.float32, number + 1), sent)
        assert engine.version == number  # and what it holds now is no policy of any version:
        with pytest.raises(WeightSyncError, match="half"):
            sample(engine)
        publisher.publish(number + 1)
    assert gap(trainer, sample(engine)) < 1e-5


def test_nothing_sent_is_an_error(folder: Path) -> None:
    trainer = build_trainer(folder)
    engine = engine_of(load_model(str(folder), CPU), shared=False)
    update(trainer)
    with pytest.raises(WeightSyncError):
        engine.set_weights(manifest(trainer.roles.policy.model, torch.float32, 1), iter(()))


def test_a_manifest_that_leaves_a_tensor_out_is_an_error(folder: Path) -> None:
    import dataclasses

    trainer = build_trainer(folder)
    engine = engine_of(load_model(str(folder), CPU), shared=False)
    whole = manifest(trainer.roles.policy.model, torch.float32, 1)
    partial = dataclasses.replace(whole, params=whole.params[1:])
    with pytest.raises(WeightSyncError, match=whole.params[0].name.replace(".", r"\.")):
        engine.set_weights(partial, gathered(trainer.roles.policy.model, torch.float32))


def test_the_same_version_is_not_published_twice(folder: Path) -> None:
    trainer = build_trainer(folder)
    copy = CopiedWeights(
        trainer.roles.policy.model, engine_of(load_model(str(folder), CPU), shared=False), torch.float32
    )
    copy.publish(0)
    before = sample(copy.engine)
    update(trainer)
    with pytest.raises(WeightSyncError, match="published already"):
        copy.publish(0)
    after = sample(copy.engine)  # a refusal leaves the copy as it was
    assert np.array_equal(before.logprobs_C, after.logprobs_C)


def test_each_kind_of_engine_refuses_the_other_s_way(folder: Path) -> None:
    trainer = build_trainer(folder)
    policy = trainer.roles.policy.model
    with pytest.raises(WeightSyncError):
        SharedWeights(engine_of(load_model(str(folder), CPU), shared=False)).publish(0)
    with pytest.raises(WeightSyncError):
        CopiedWeights(policy, engine_of(policy, shared=True), torch.float32).publish(0)
