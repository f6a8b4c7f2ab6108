import json
import os
import subprocess
import sys

import numpy as np
import pytest
import reasoning_gym

from surefoot.data.gym import HASH_ORDERED, gym_prompts
from surefoot.types.errors import ConfigError, DataError
from surefoot.types.rollout import Message

DIGITS = {"min_digits": 1, "max_digits": 1}


def test_prompts_are_the_generators_rows() -> None:
    entries = list(reasoning_gym.create_dataset("products", size=3, seed=5, **DIGITS))
    prompts = gym_prompts("products", size=3, seed=5, params=DIGITS, system="S", template="{prompt}!")
    assert [prompt.id for prompt in prompts] == ["products-5:0", "products-5:1", "products-5:2"]
    for prompt, entry in zip(prompts, entries, strict=True):
        assert prompt.messages == (Message("system", "S"), Message("user", entry["question"] + "!"))
        assert prompt.payload["label"] == entry["answer"]
        assert prompt.payload["metadata"] == {"task": "products", "params": DIGITS, "entry": entry}
        assert prompt.payload["origin"] == prompt.id
        json.dumps(prompt.payload)


def test_unknown_task_names_the_nearest() -> None:
    with pytest.raises(DataError, match="'prodcts' is not a reasoning_gym generator; did you mean 'products'"):
        gym_prompts("prodcts", size=1, seed=0, params={})


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"min_digit": 1}, "unexpected keyword argument 'min_digit'"),
        ({"min_digits": 0}, "min_digits must be positive"),
        ({"min_digits": "1"}, "TypeError"),
        ({"size": 3}, "multiple values for keyword argument 'size'"),
    ],
)
def test_bad_options_carry_the_generators_message(params: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=rf"^task = 'products', params = .*{message}"):
        gym_prompts("products", size=1, seed=0, params=params)


def test_size_must_be_set() -> None:
    with pytest.raises(ConfigError, match="size = 0"):
        gym_prompts("products", size=0, seed=0, params={})


def test_numpys_global_state_is_kept() -> None:
    np.random.seed(3)
    before = np.random.random(4).tolist()
    np.random.seed(3)
    gym_prompts("pool_matrix", size=2, seed=0, params={})  # seeds numpy for every row
    assert np.random.random(4).tolist() == before


def generate(task: str, hash_seed: str) -> subprocess.CompletedProcess[str]:
    """Two prompts of `task` in a process of its own."""
    script = (
        f"from surefoot.data.gym import gym_prompts; print(len(gym_prompts({task!r}, size=2, seed=7, params={{}})))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)


def test_rows_that_would_not_repeat_are_refused() -> None:
    task = "isomorphic_strings"
    assert task in HASH_ORDERED
    allowed, refused = generate(task, "0"), generate(task, "1")
    assert allowed.stdout == "2\n", allowed.stderr
    assert refused.returncode == 1
    assert "start with PYTHONHASHSEED=0" in refused.stderr
