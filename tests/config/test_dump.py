"""What is dumped loads back equal, and earns no warnings that the first file did not."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.config.dump import dump_config
from surefoot.config.effects import find_warnings, given_keys
from surefoot.config.load import load_config
from surefoot.config.schema import RunConfig
from surefoot.types.errors import ConfigError

BASE: dict[str, Any] = {"model": {"path": "m"}, "loop": {"steps": 1}}


def reload(config: RunConfig, folder: Path) -> RunConfig:
    path = folder / "config.toml"
    path.write_text(dump_config(config), encoding="utf8")
    return load_config(path)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.one_of(TEXTS, st.integers(-5, 5), st.booleans(), st.lists(st.integers(0, 3), max_size=3))
PARAMS = st.dictionaries(TEXTS, VALUES, min_size=1, max_size=3)
REWARDS = st.lists(st.floats(0.1, 5), min_size=1, max_size=3).map(
    lambda weights: [
        {"name": f"r{i}", "weight": weight, "params": {"a": [{"b": i}]}} for i, weight in enumerate(weights)
    ]
)


@settings(deadline=None, max_examples=40)
@given(
    template=TEXTS,
    params=PARAMS,
    rewards=REWARDS,
    stop=st.lists(TEXTS.filter(bool), max_size=3),
    lr=st.floats(1e-300, 1e300),
    estimator=st.sampled_from(["grpo", "rloo"]),
    compute=st.sampled_from(["fp16", "fp32"]),
    sets=st.integers(0, 2),
)
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, **drawn: Any) -> None:
    config = RunConfig.model_validate(
        BASE
        | {
            "data": {"path": "x", "template": "{prompt}" + drawn["template"], "params": drawn["params"]},
            "env": {"rewards": drawn["rewards"]},
            "rollout": {"stop": drawn["stop"]},
            "optim": {"lr": drawn["lr"]},
            "algo": {"estimator": drawn["estimator"]},
            "precision": {"compute": drawn["compute"]},
            "eval": {"sets": [{"name": f"s{i}", "path": "y"} for i in range(drawn["sets"])]},
        }
    )
    again = reload(config, tmp_path_factory.mktemp("dump"))
    assert again == config
    assert find_warnings(again, given_keys(again)) == find_warnings(config, given_keys(config))


def test_defaults_are_written_out() -> None:
    config = RunConfig.model_validate(BASE | {"data": {"path": "x"}, "env": {"rewards": [{"name": "a"}]}})
    assert "tis_cap = 2.0" in dump_config(config)
    assert "keep_last = 2" in dump_config(config)


def test_a_warning_that_was_earned_stays(tmp_path: Path) -> None:
    tree = BASE | {"data": {"path": "x", "task": "t"}, "env": {"rewards": [{"name": "a"}]}, "algo": {"kl_kind": "k1"}}
    config = RunConfig.model_validate(tree)
    again = reload(config, tmp_path)
    assert [line.partition(" ")[0] for line in find_warnings(again, given_keys(again))] == ["algo.kl_kind", "data.task"]


def test_a_value_toml_cannot_hold_is_an_error() -> None:
    tree = BASE | {"data": {"path": "x", "params": {"a": None}}, "env": {"rewards": [{"name": "a"}]}}
    with pytest.raises(ConfigError, match="cannot be written as TOML"):
        dump_config(RunConfig.model_validate(tree))
