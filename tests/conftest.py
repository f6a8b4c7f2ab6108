"""Fixtures: a small model's folder, and a launcher of several ranks."""

from collections.abc import Callable
from pathlib import Path

import pytest

from runs import end_zygote, run_script
from support import add_letters, save_model


def pytest_configure() -> None:
    add_letters()


def pytest_unconfigure() -> None:
    end_zygote()


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def torchrun() -> Callable[..., str]:
    """Runs a script on several gloo ranks, as torchrun would but from a warm process; returns what it printed.

    Fails with its output if it fails. torchrun itself runs in tests/docs, with the README's command.
    """

    def launch(script: Path, *arguments: str, ranks: int = 2, timeout: float = 120) -> str:
        return run_script(script, arguments, ranks, timeout)

    return launch
