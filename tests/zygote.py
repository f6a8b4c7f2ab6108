"""Imports everything once and runs each of what it is sent in a forked child; some children kill themselves.

`runs.py` starts one such process for all tests and writes requests to its stdin, a JSON object a line:
{"jobs": [...], "log": folder, "cwd": folder, "environment": {...}}. A job is a run {"config", "overrides", "resume",
"kill": [point, n]} or a script {"script", "arguments"}; "ranks" says how many processes it takes, and jobs of one
"lane" follow each other. The answer is a line, the exit statuses; what rank 0 of job 3 printed is in log/3-0.out, .err.

A kill point is a function that is wrapped here, in the child, from outside: the n-th call of it ends the child with
SIGKILL, half-way where it has a half.
"""

import importlib
import json
import os
import runpy
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from support import add_letters
from surefoot.config.load import load_config
from surefoot.engines.inprocess.engine import InProcessEngine
from surefoot.loop.run import run
from surefoot.observe.ledger import Ledger
from surefoot.train.step import Trainer

AT_ONCE = max(2, os.cpu_count() or 1)  # processes


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


def work(job: dict[str, Any]) -> None:
    if "script" in job:
        sys.argv = [job["script"], *job["arguments"]]
        sys.path.insert(0, str(Path(job["script"]).parent))
        runpy.run_path(job["script"], run_name="__main__")
        return
    if job["kill"]:
        arm(*job["kill"])
    run(load_config(job["config"], *job["overrides"]), resume=job["resume"])


def child(job: dict[str, Any], output: Path, variables: dict[str, str]) -> None:
    """Does not return."""
    for suffix, number in ((".out", 1), (".err", 2)):
        with output.with_suffix(suffix).open("wb") as file:
            os.dup2(file.fileno(), number)
    os.environ.update(variables)
    status = 0
    try:
        work(job)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


def start(job: dict[str, Any], output: Path) -> list[int]:
    """The process of each rank, in the environment that torchrun would give it."""
    ranks, port = job["ranks"], free_port()
    pids = []
    for rank in range(ranks):
        variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        variables |= dict.fromkeys(("RANK", "LOCAL_RANK"), str(rank))
        variables |= dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(ranks))
        pid = os.fork()
        if pid == 0:
            child(job, output.with_name(f"{output.name}-{rank}.out"), variables if job["ranks"] > 1 else {})
        pids.append(pid)
    return pids


@dataclass
class Request:
    """Its jobs side by side, as many as there are cores; those of one lane one after another."""

    jobs: list[dict[str, Any]]
    log: Path
    waiting: list[int] = field(init=False)
    running: dict[int, int] = field(default_factory=dict)  # pid -> job
    statuses: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.waiting = list(range(len(self.jobs)))

    def answer(self) -> list[int]:
        while self.waiting or self.running:
            while (number := self._next()) is not None:
                self.waiting.remove(number)
                self.running |= dict.fromkeys(start(self.jobs[number], self.log / str(number)), number)
            self._bury(*os.wait())
        return [self.statuses[number] for number in range(len(self.jobs))]

    def _next(self) -> int | None:
        busy = {self.jobs[number]["lane"] for number in self.running.values()}
        for number in self.waiting:
            job = self.jobs[number]
            if job["lane"] not in busy and (not busy or len(self.running) + job["ranks"] <= AT_ONCE):
                return number
            busy.add(job["lane"])  # nor may a later one of its lane overtake it
        return None

    def _bury(self, pid: int, status: int) -> None:
        """The first bad status of its ranks is the job's; the others could wait for that rank for ever."""
        number = self.running.pop(pid)
        code = os.waitstatus_to_exitcode(status)
        self.statuses[number] = self.statuses.get(number) or code
        if code:
            for other in [other for other, theirs in self.running.items() if theirs == number]:
                os.kill(other, signal.SIGKILL)


def preload() -> None:
    """What a run imports or builds once on its way: here, not in every child. No thread is started before the forks."""
    for name in ("transformers.models.llama.modeling_llama", "torch.distributed.checkpoint", "torch._dynamo", "pandas"):
        importlib.import_module(name)
    from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast
    from transformers.conversion_mapping import get_checkpoint_conversion_mapping

    assert AutoModelForCausalLM and AutoTokenizer and PreTrainedTokenizerFast
    get_checkpoint_conversion_mapping("llama")  # compiles a thousand patterns


def main() -> None:
    preload()
    add_letters()
    for line in sys.stdin:
        request = json.loads(line)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["environment"])
        print(json.dumps(Request(request["jobs"], Path(request["log"])).answer()), flush=True)


if __name__ == "__main__":
    main()
