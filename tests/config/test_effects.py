"""Keys without effect are warned about where the user set them, and only there."""

from typing import Any

import pytest

from surefoot.config.effects import find_warnings, given_keys, no_effect
from surefoot.config.keys import find_key
from surefoot.config.schema import RunConfig


def make(**sections: Any) -> RunConfig:
    good: dict[str, Any] = {"model": {"path": "m"}, "data": {"path": "x"}, "env": {"rewards": [{"name": "a"}]}}
    return RunConfig.model_validate(good | sections)


def warnings(**sections: Any) -> list[str]:
    config = make(**sections)
    return find_warnings(config, given_keys(config))


def test_given_keys() -> None:
    config = make(algo={"tis_cap": 2.0}, eval={"sets": [{"name": "a", "path": "b"}]}, rollout={"stop": ["x"]})
    assert given_keys(config) == {
        "model.path",
        "data.path",
        "env.rewards.0.name",
        "algo.tis_cap",
        "eval.sets.0.name",
        "eval.sets.0.path",
        "rollout.stop",
    }


def test_defaults_earn_no_warning() -> None:
    assert warnings() == []


@pytest.mark.parametrize(
    ("sections", "key"),
    [
        ({"algo": {"correction": "none", "tis_cap": 2.0}}, "algo.tis_cap"),
        ({"algo": {"kl_kind": "k1"}}, "algo.kl_kind"),
        ({"algo": {"kl_coef": 0.1, "kl_metric": True}}, "algo.kl_metric"),
        ({"algo": {"constant_length": 10}}, "algo.constant_length"),
        ({"algo": {"estimator": "rloo", "std_eps": 1e-4}}, "algo.std_eps"),
        ({"algo": {"estimator": "dr_grpo", "std_eps": 1e-4}}, "algo.std_eps"),
        ({"precision": {"init_scale": 4.0}}, "precision.init_scale"),
        ({"precision": {"compute": "bf16", "hysteresis": 2}}, "precision.hysteresis"),
        ({"precision": {"compute": "fp16", "dynamic_scale": False, "growth_interval": 5}}, "precision.growth_interval"),
        ({"train": {"on_overflow": "skip"}}, "train.on_overflow"),
        ({"precision": {"compute": "fp16"}, "train": {"on_overflow": "skip", "max_retries": 1}}, "train.max_retries"),
        ({"optim": {"min_lr_ratio": 0.1}}, "optim.min_lr_ratio"),
        ({"data": {"path": "x", "task": "products"}}, "data.task"),
        ({"data": {"source": "reasoning_gym", "task": "t", "size": 1, "label_key": "a"}}, "data.label_key"),
        ({"reference": {"path": "r"}}, "reference.path"),
        ({"reference": {"update_interval": 3}}, "reference.update_interval"),
        ({"eval": {"every": 3}}, "eval.every"),
        ({"eval": {"sets": [{"name": "a", "path": "b", "params": {"a": 1}}]}}, "eval.sets.0.params"),
        ({"observe": {"run_dir": "x"}, "loop": {"name": "y"}}, "loop.name"),
    ],
)
def test_no_effect(sections: dict[str, Any], key: str) -> None:
    (said,) = warnings(**sections)
    assert said.startswith(f"{key} has no effect: ")


@pytest.mark.parametrize(
    "sections",
    [
        {"algo": {"tis_cap": 2.0}},
        {"algo": {"kl_coef": 0.1, "kl_kind": "k1"}, "reference": {"path": "r"}},
        {"algo": {"kl_metric": True, "kl_kind": "k1"}, "reference": {"update_interval": 2}},
        {"algo": {"aggregation": "constant", "constant_length": 10}},
        {"algo": {"std_eps": 1e-4}},
        {"precision": {"compute": "fp16", "init_scale": 4.0, "hysteresis": 1}, "train": {"max_retries": 3}},
        {"precision": {"compute": "fp16", "dynamic_scale": False, "init_scale": 4.0}},
        {"optim": {"schedule": "cosine", "min_lr_ratio": 0.1}},
        {"data": {"source": "reasoning_gym", "task": "t", "size": 1, "seed": 3, "params": {"a": 1}}},
    ],
)
def test_effect(sections: dict[str, Any]) -> None:
    assert warnings(**sections) == []


def test_surprises() -> None:
    greedy = {"name": "a", "path": "b", "temperature": 0.0, "samples": 4}
    assert warnings(eval={"sets": [greedy]}) == ["eval.sets.0.samples: 4 samples at temperature 0 are all the same"]
    assert warnings(loop={"steps": 2}, optim={"warmup": 5})[0].startswith("optim.warmup: the run ends after 2 updates")


def test_every_key_named_exists() -> None:
    config = make(
        algo={"estimator": "rloo", "correction": "none"}, eval={"sets": [{"name": "a"}]}, observe={"run_dir": "x"}
    )
    for name in no_effect(config):
        path = tuple(int(part) if part.isdigit() else part for part in name.split("."))
        assert find_key(path) is not None, name
