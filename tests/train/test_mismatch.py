"""The worst token is named: one outlier among many, on whatever sample and micro-batch it is."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from support import make_samples
from surefoot.config.schema import AlgoConfig, OptimConfig, PrecisionConfig, TrainConfig
from surefoot.train.mismatch import gap_metrics
from surefoot.train.prepare import Scores, build_batch
from surefoot.train.roles import Roles, load_policy
from surefoot.train.shard import World
from surefoot.train.step import Trainer, TrainerConfig

ONE = World(0, 1, torch.device("cpu"))


@pytest.mark.parametrize(("sample", "token"), [(0, 4), (3, 20), (4, 53)])
def test_an_outlier_is_named_with_sample_and_position(model_folder: Path, sample: int, token: int) -> None:
    role = load_policy(str(model_folder), ONE, PrecisionConfig())
    config = TrainerConfig(TrainConfig(max_tokens=60), AlgoConfig(), OptimConfig(), PrecisionConfig(), 1.0, 0, 0)
    trainer = Trainer(Roles(role, None), config)
    samples = make_samples([(3, 5), (7, 30), (2, 1), (10, 12), (4, 50)])
    bad = samples[sample].behavior_logprobs_L.copy()
    bad[token] += 100
    samples[sample] = dataclasses.replace(samples[sample], behavior_logprobs_L=bad)
    scores = Scores({s.ref: s.behavior_logprobs_L for s in samples}, {}, "sampler")
    batch = build_batch(samples, scores, config, role)
    logprobs = trainer.backward(batch).logprobs_MN
    metrics = gap_metrics(batch, logprobs, ONE)
    assert (metrics["mismatch_worst_sample"], metrics["mismatch_worst_position"]) == (sample, token)
    assert metrics["mismatch_max"] > 90 and metrics["mismatch_mean"] < 5


def test_nothing_trained_is_no_mismatch(model_folder: Path) -> None:
    role = load_policy(str(model_folder), ONE, PrecisionConfig())
    config = TrainerConfig(TrainConfig(), AlgoConfig(), OptimConfig(), PrecisionConfig(), 1.0, 0, 0)
    trainer = Trainer(Roles(role, None), config)
    samples = [dataclasses.replace(s, loss_mask_L=np.zeros_like(s.loss_mask_L)) for s in make_samples([(3, 5)])]
    batch = build_batch(samples, Scores({s.ref: s.behavior_logprobs_L for s in samples}, {}, "sampler"), config, role)
    metrics = gap_metrics(batch, trainer.backward(batch).logprobs_MN, ONE)
    assert metrics["mismatch_max"] == 0 and metrics["mismatch_worst_sample"] == -1
