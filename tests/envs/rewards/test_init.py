import inspect

import pytest

from surefoot.envs import rewards
from surefoot.types.errors import HookError


def test_names() -> None:
    expected = {"exact_match", "math", "dapo", "deepscaler", "gpqa", "f1", "ifbench", "remote", "reasoning_gym"}
    assert set(rewards.NAMES) == expected


@pytest.mark.parametrize("name", rewards.NAMES)
def test_every_built_in_has_the_signature(name: str) -> None:
    parameters = inspect.signature(rewards.get(name)).parameters
    positional = [key for key, value in parameters.items() if value.kind is value.POSITIONAL_OR_KEYWORD]
    assert positional == ["prompt", "response", "label", "metadata"]
    options = [key for key, value in parameters.items() if value.kind is value.KEYWORD_ONLY]
    check = inspect.signature(rewards.find(name).check).parameters
    assert [key for key, value in check.items() if value.kind is value.KEYWORD_ONLY] == options


def test_unknown_name() -> None:
    with pytest.raises(HookError, match="'exactmatch'; did you mean 'exact_match'"):
        rewards.get("exactmatch")
    with pytest.raises(HookError, match="known are exact_match, math, "):
        rewards.get("zzz")
