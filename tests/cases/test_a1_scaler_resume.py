"""a1-scaler-resume, https://github.com/huggingface/transformers/issues/34053

The loss scale was not in the checkpoint: after a resume it jumped back to its start. Its kind: any number that decides
on the next scale or learning rate, for every pattern of overflows and every stopping point.

Run as a script this file is the process that resumes: it prints what it used as JSON.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from surefoot.config.schema import OptimConfig
from surefoot.train.checkpoint import load_loop_state, load_tensors, save_checkpoint
from surefoot.train.state import number_state, restore, tensor_state, weights_digest
from surefoot.train.step import Trainer
from trainers import attempt, one_token_batch, same, snapshot, weights_trainer

PATTERN = [True, True, False, False, False, False, False]
UNBROKEN = [1024, 512, 256, 256, 256, 512, 512]
SAVED = {"scale": 256, "clean_steps": 2}
RESUMED, COUNTER_LOST, ALL_LOST = [256, 512, 512], [256, 256, 256], [1024, 1024, 1024]


def one_weight(warmup: int = 0) -> Trainer:
    """w = 0, true gradient 1, start 1024, growth after 3 clean steps."""
    return weights_trainer(1, "fp16", optim=OptimConfig(lr=0.1, warmup=warmup), precision={"min_scale": 2.0**-30})


def run(trainer: Trainer, pattern: Sequence[bool]) -> list[tuple[float, float, str]]:
    """(scale, learning rate, reason) of each attempt; gradients of the marked ones are inf."""
    told = []
    for overflow in pattern:
        factor = torch.inf if overflow else 1.0
        handle = trainer.masters.params[0].register_hook(lambda grad, factor=factor: grad * factor)
        report = attempt(trainer, one_token_batch(trainer))
        handle.remove()
        told.append((report.loss_scale, report.lr, report.reason))
    return told


def scales(told: Sequence[tuple[float, float, str]]) -> list[float]:
    return [scale for scale, _, _ in told]


def save(trainer: Trainer, root: Path) -> Path:
    return save_checkpoint(
        root,
        4,
        tensors=tensor_state(trainer),
        loop_state={"trainer": number_state(trainer)},
        weights_digest=weights_digest(trainer),
        keep_last=1,
    )


def resume(path: Path) -> Trainer:
    trainer = one_weight()
    load_tensors(path, tensor_state(trainer))
    restore(trainer, load_loop_state(path)["trainer"])
    return trainer


def test_the_handed_run_in_two_processes(tmp_path: Path) -> None:
    whole, first = one_weight(), one_weight()
    told = run(whole, PATTERN)
    assert scales(told) == UNBROKEN
    assert [reason for _, _, reason in told] == ["overflow"] * 2 + ["ok"] * 5
    assert abs(whole.masters.tensors[0].item() + 0.5) < 1e-6  # five updates of 0.1
    assert run(first, PATTERN[:4]) == told[:4]
    path = save(first, tmp_path)
    saved = load_loop_state(path)["trainer"]["scaler"]
    assert {key: saved[key] for key in SAVED} == SAVED
    done = subprocess.run(
        [sys.executable, __file__, str(path)],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["scales"] == RESUMED
    assert answer["digest"] == weights_digest(whole)


def test_the_check_fails_on_the_fault_itself(tmp_path: Path) -> None:
    first = one_weight()
    run(first, PATTERN[:4])
    path = save(first, tmp_path)
    forgetful, blank = resume(path), resume(path)
    forgetful.scaler.restore({**forgetful.scaler.state_dict(), "clean_steps": 0})
    blank.scaler.restore(one_weight().scaler.state_dict())
    assert scales(run(forgetful, PATTERN[4:])) == COUNTER_LOST
    assert scales(run(blank, PATTERN[4:])) == ALL_LOST


@settings(max_examples=40, deadline=None)
@given(pattern=st.lists(st.booleans(), max_size=15), stop=st.integers(0, 15))  # 15 clean ones: 32768, still fp16's
@example(pattern=PATTERN, stop=4)
def test_any_pattern_stopped_anywhere(pattern: list[bool], stop: int) -> None:
    """Scales, learning rates of a warm-up over 4 updates, masters, moments and parameters, to the bit."""
    whole, first, second = (one_weight(warmup=4) for _ in range(3))
    told = run(whole, pattern)
    before = run(first, pattern[:stop])
    numbers = json.loads(json.dumps(number_state(first)))
    saved, live = tensor_state(first), tensor_state(second)
    with torch.no_grad():
        live["policy"]["weight"].copy_(saved["policy"]["weight"])
        for key, moment in live["optimizer"]["weight"].items():
            moment.copy_(saved["optimizer"]["weight"][key])
    restore(second, numbers)
    assert before + run(second, pattern[stop:]) == told
    assert same(snapshot(whole), snapshot(second))
    assert second.scaler.state_dict() == whole.scaler.state_dict()
    assert second.updates == pattern.count(False)
    assert scales(told) == torch_scales(pattern)


def torch_scales(pattern: Sequence[bool]) -> list[float]:
    scale, tracker, used = torch.tensor(1024.0), torch.tensor(0, dtype=torch.int32), []
    for overflow in pattern:
        used.append(scale.item())
        torch._amp_update_scale_(scale, tracker, torch.tensor(float(overflow)), 2.0, 0.5, 3)
    return used


def main(path: str) -> None:
    trainer = resume(Path(path))
    told = run(trainer, PATTERN[4:])
    print(json.dumps({"scales": scales(told), "digest": weights_digest(trainer)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
