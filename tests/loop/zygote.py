"""Imports everything once and runs each of a list of runs in a forked child, some of which kill themselves.

`python zygote.py` reads one JSON object from stdin, {"runs": [{"config", "overrides", "resume", "kill": [point, n]}]},
and prints the children's exit statuses as JSON. A kill point is a function that is wrapped here, in the child, from
outside: the n-th call of it ends the child with SIGKILL, half-way where it has a half.
"""

import importlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

import torch

from surefoot.config.load import load_config
from surefoot.engines.inprocess.engine import InProcessEngine
from surefoot.loop.run import run
from surefoot.observe.ledger import Ledger
from surefoot.train.step import Trainer


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def on_call(owner: Any, name: str, number: int, then: Callable[[], None]) -> None:
    """Before the number-th call of owner.name, `then`."""
    original, calls = getattr(owner, name), [0]

    def counted(*arguments: Any, **keywords: Any) -> Any:
        calls[0] += 1
        if calls[0] == number:
            then()
        return original(*arguments, **keywords)

    setattr(owner, name, counted)


def half_an_update(number: int) -> None:
    """The number-th optimizer step changes half of the parameters, then the process dies."""

    def spoil_and_die(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for group in optimizer.param_groups[:1]:
            for param in group["params"][::2]:
                param.data.add_(1.0)
        die()

    calls = [0]
    original = Trainer._apply

    def counted(trainer: Trainer, *arguments: Any) -> None:
        calls[0] += 1
        if calls[0] == number:
            trainer.optimizer.register_step_pre_hook(spoil_and_die)
        original(trainer, *arguments)

    Trainer._apply = counted  # type: ignore[method-assign]


def arm(point: str, number: int) -> None:
    if point == "sampling":
        on_call(InProcessEngine, "_step", number, die)
    elif point == "update":
        half_an_update(number)
    elif point == "replace":  # every atomic file ends in one
        on_call(os, "replace", number, die)
    elif point == "rename":  # every checkpoint ends in one
        on_call(os, "rename", number, die)
    elif point == "fsync":
        on_call(os, "fsync", number, die)
    elif point == "ledger":
        on_call(Ledger, "commit_step", number, die)
    elif point == "after_ledger":
        from surefoot.observe.metrics import MetricsLog

        on_call(MetricsLog, "append", number, die)
    elif point == "term_sampling":
        on_call(InProcessEngine, "_step", number, terminate)
    elif point == "term_training":
        on_call(Trainer, "attempt", number, terminate)
    elif point == "term_twice":
        on_call(InProcessEngine, "_step", number, terminate)
        on_call(os, "rename", 1, terminate)  # in the middle of the checkpoint that the first asked for
    else:
        raise ValueError(point)


def child(job: dict[str, Any]) -> None:
    if job.get("kill"):
        arm(*job["kill"])
    run(load_config(job["config"], *job.get("overrides", [])), resume=job.get("resume", False))


def preload() -> None:
    """What a run imports on its way: once here, not in every child. Nothing is computed before the forks."""
    for name in ("transformers.models.llama.modeling_llama", "torch.distributed.checkpoint", "torch._dynamo"):
        importlib.import_module(name)
    from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

    assert AutoModelForCausalLM and AutoTokenizer and PreTrainedTokenizerFast


def main() -> None:
    preload()
    statuses = []
    for job in json.load(sys.stdin)["runs"]:
        pid = os.fork()
        if pid == 0:
            os.dup2(2, 1)  # what a run prints is for the test's eyes
            status = 0
            try:
                child(job)
            except BaseException:
                traceback.print_exc()
                status = 1
            os._exit(status)
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    print(json.dumps(statuses))


if __name__ == "__main__":
    main()
