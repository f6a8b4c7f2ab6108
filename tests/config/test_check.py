"""Contradictions between keys, one case each, and no complaint about what is sound."""

from typing import Any

import pytest

from surefoot.config.check import find_problems
from surefoot.config.schema import RunConfig

GOOD: dict[str, Any] = {
    "model": {"path": "m"},
    "data": {"path": "x.jsonl"},
    "env": {"rewards": [{"name": "exact_match"}]},
    "loop": {"steps": 3},
}
GYM = {"source": "reasoning_gym", "task": "products", "size": 10}


def make(**sections: Any) -> RunConfig:
    """GOOD, with keys of sections replaced."""
    tree = {name: {**GOOD.get(name, {}), **sections.get(name, {})} for name in GOOD | sections}
    return RunConfig.model_validate(tree)


def test_good() -> None:
    assert find_problems(make()) == []


@pytest.mark.parametrize(
    "sections",
    [
        {"loop": {"steps": 0}, "data": {"epochs": 1}},
        {"train": {"updates_per_rollout": 64}},  # as many as rollouts
        {"train": {"updates_per_rollout": 4}, "algo": {"correction": "none"}},  # the ratio clips
        {"train": {"max_tokens": 1152}},  # exactly a sample
        {"precision": {"compute": "fp16", "hysteresis": 2}, "train": {"on_overflow": "skip"}},
        {"precision": {"compute": "fp16", "hysteresis": 2, "dynamic_scale": False}},
        {"precision": {"init_scale": 1.0, "min_scale": 1.0, "max_scale": 1.0}},
        {"optim": {"schedule": "cosine", "warmup": 2}},
        {"data": {**GYM, "path": ""}},
        {"algo": {"aggregation": "constant"}},  # 0 stands for rollout.max_new_tokens
        {"env": {"rewards": [{"function": "my.module.reward"}, {"name": "exact_match", "weight": 0.0}]}},
        {"observe": {"run_dir": "here"}, "loop": {"steps": 3, "name": "a/b"}},
    ],
)
def test_sound(sections: dict[str, Any]) -> None:
    assert find_problems(make(**sections)) == []


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"model": {"path": ""}}, "model.path: the model folder is not named"),
        ({"loop": {"steps": 0}}, "loop.steps: the run has no end"),
        ({"loop": {"name": "a/b"}}, 'loop.name: "a/b" cannot name the folder'),
        ({"loop": {"name": ""}}, 'loop.name: "" cannot name the folder'),
        ({"data": {"path": ""}}, 'data.path: source "jsonl" needs a file'),
        ({"data": {"input_key": ""}}, "data.input_key: "),
        ({"data": {**GYM, "task": ""}}, 'data.task: source "reasoning_gym" needs a task'),
        ({"data": {**GYM, "size": 0}}, 'data.size: source "reasoning_gym" needs the number of rows'),
        ({"data": {"template": "{promt}"}}, "data.template: without {prompt}"),
        ({"env": {"rewards": []}}, "env.rewards: no reward"),
        ({"env": {"rewards": [{}]}}, "env.rewards.0.name: neither name nor function"),
        ({"env": {"rewards": [{"name": "a", "function": "b.c"}]}}, "env.rewards.0.name: both name and function"),
        ({"env": {"rewards": [{"function": "reward"}]}}, 'env.rewards.0.function: "reward" is not package.module'),
        ({"env": {"rewards": [{"function": "a..b"}]}}, 'env.rewards.0.function: "a..b" is not'),
        ({"env": {"rewards": [{"name": "a", "weight": float("nan")}]}}, "env.rewards.0.weight: nan is not a finite"),
        ({"env": {"rewards": [{"name": "a", "weight": 0.0}]}}, "env.rewards.0.weight: every weight is 0"),
        ({"env": {"rewards": [{"name": "a"}, {"name": "a"}]}}, 'env.rewards: 2 rewards are called "a"'),
        ({"rollout": {"group_size": 1}}, 'rollout.group_size: a group of 1 has nothing to be compared with: "grpo"'),
        ({"rollout": {"group_size": 1}, "algo": {"estimator": "rloo"}}, "rollout.group_size: a group of 1"),
        ({"rollout": {"group_size": 1}, "algo": {"estimator": "dr_grpo"}}, "rollout.group_size: a group of 1"),
        ({"rollout": {"stop": [""]}}, "rollout.stop: an empty stop string"),
        ({"train": {"updates_per_rollout": 65}}, "train.updates_per_rollout: 65 mini-batches cannot be cut from 64"),
        ({"train": {"max_tokens": 1151}}, "train.max_tokens: a sample of 1024 + 128 = 1152 tokens"),
        ({"precision": {"min_scale": 4.0, "max_scale": 2.0}}, "precision.min_scale: 4.0 is above precision.max_scale"),
        ({"precision": {"init_scale": 0.5}}, "precision.init_scale: 0.5 is outside"),
        ({"precision": {"init_scale": 2.0**30}}, "precision.init_scale: 1073741824.0 is outside"),
        ({"precision": {"growth_factor": 1.0}}, "precision.growth_factor: 1.0 does not grow"),
        ({"precision": {"backoff_factor": 1.0}}, "precision.backoff_factor: 1.0 does not back off"),
        (
            {"precision": {"compute": "fp16", "hysteresis": 2}},
            'precision.hysteresis: train.on_overflow = "retry" needs 1',
        ),
        ({"optim": {"beta2": 1.0}}, "optim.beta2: a moment with decay 1"),
        ({"optim": {"schedule": "linear", "warmup": 3}}, "optim.warmup: 3 updates of warm-up leave none of 3"),
        ({"eval": {"sets": [{"name": "a", "path": ""}]}}, 'eval.sets.0.path: source "jsonl" needs a file'),
        ({"eval": {"sets": [{"name": "", "path": "x"}]}}, "eval.sets.0.name: "),
        ({"eval": {"sets": [{"name": "a", "path": "x"}] * 2}}, 'eval.sets: 2 sets are named "a"'),
    ],
)
def test_contradiction(sections: dict[str, Any], said: str) -> None:
    (problem,) = find_problems(make(**sections))
    assert problem.startswith(said)


def test_all_at_once() -> None:
    assert len(find_problems(make(loop={"steps": 0}, rollout={"group_size": 1}, env={"rewards": []}))) == 3
