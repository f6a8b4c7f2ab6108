"""Fixtures: a small model's folder, and a launcher of several ranks."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support import save_model


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def torchrun() -> Callable[..., str]:
    """Runs a script's text on several gloo ranks; returns what it printed, fails with its output if it fails."""

    def launch(script: Path, *arguments: str, ranks: int = 2, timeout: float = 120) -> str:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(path)}
        done = subprocess.run(
            [*command, str(script), *arguments],
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout,
            env=environment,
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-6000:]
        return done.stdout

    return launch
