"""The same saved rollouts on 1 and 2 ranks: the losses and gradients of one process."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from surefoot.observe.rollouts import write_rollouts
from surefoot.types.rollout import Generation, Group, Message, Prompt, Rollout, Turn

SCRIPT = Path(__file__).with_name("ranks_step.py")


@pytest.fixture(scope="module")
def rollouts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five groups of one to three rollouts, 2 to 40 tokens long."""
    rng = np.random.default_rng(11)
    groups = []
    for number, size in enumerate((3, 1, 2, 3, 1)):
        prompt_ids = rng.integers(3, 31, rng.integers(1, 12)).astype(np.int32)
        made = []
        for index in range(size):
            length = int(rng.integers(1, 30))
            generation = Generation(
                token_ids_C=rng.integers(3, 31, length).astype(np.int32),
                logprobs_C=-rng.random(length).astype(np.float32) * 3,
                versions_C=np.zeros(length, np.int32),
                stop="eos",
            )
            turn = Turn(prompt_ids, generation, (), 1.0)
            made.append(Rollout((turn,), "eos", "text", index, 1.0, {"exact_match": 1.0}, {}, ""))
        groups.append(Group(number, Prompt(str(number), "", (Message("user", "x"),), {}), tuple(made)))
    path = tmp_path_factory.mktemp("rollouts") / "step-000001.parquet"
    write_rollouts(path, groups, {})
    return path


@pytest.mark.parametrize(("compute", "gradient_bound", "loss_bound"), [("fp64", 1e-12, 1e-12), ("fp32", 1e-5, 1e-6)])
def test_two_ranks_are_one(
    model_folder: Path,
    rollouts: Path,
    tmp_path: Path,
    torchrun: Callable[..., str],
    compute: str,
    gradient_bound: float,
    loss_bound: float,
) -> None:
    results: list[dict[str, Any]] = []
    for ranks in (1, 2):
        output = tmp_path / f"{ranks}.pt"
        torchrun(SCRIPT, str(model_folder), str(rollouts), str(output), compute, ranks=ranks)
        results.append(torch.load(output))
    one, two = results
    assert one["verdict"] == two["verdict"] == "applied"
    for mix in ("ragged", "one sample", "one trains"):
        assert abs(one[mix]["loss"] - two[mix]["loss"]) < loss_bound * one[mix]["size"]
        assert (one[mix]["grad"] - two[mix]["grad"]).norm() < gradient_bound * one[mix]["grad"].norm()
        assert two[mix]["norm"] == pytest.approx(one[mix]["grad"].norm().item(), rel=gradient_bound)
    for result in results:
        assert result["nothing trains"]["loss"] == 0 and not result["nothing trains"]["grad"].any()
    assert (one["after"]["grad"] - two["after"]["grad"]).norm() < 1e-3 * one["after"]["grad"].norm()
