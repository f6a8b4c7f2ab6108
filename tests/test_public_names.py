"""The names that are promised are there, and `import surefoot` brings no torch."""

import importlib
import subprocess
import sys

import pytest

PROMISED = {
    "surefoot": ("load_config", "run", "RunResult"),
    "surefoot.algos": ("group_advantages", "policy_loss", "kl_estimate", "importance_weights", "token_weights"),
    "surefoot.train": ("LossScaler", "Trainer"),
    "surefoot.data": ("read_prompts",),
    "surefoot.envs.rewards": ("get",),
}


@pytest.mark.parametrize(("module", "name"), [(m, n) for m, names in PROMISED.items() for n in names])
def test_it_is_there(module: str, name: str) -> None:
    package = importlib.import_module(module)
    assert callable(getattr(package, name))
    assert name in package.__all__


def test_what_is_not_there_says_so() -> None:
    for module in ("surefoot", "surefoot.train"):
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            importlib.import_module(module).nothing  # noqa: B018


def test_import_is_light() -> None:
    check = "import sys, surefoot, surefoot.train.find; assert 'torch' not in sys.modules, 'torch was imported'"
    subprocess.run([sys.executable, "-c", check], check=True)
