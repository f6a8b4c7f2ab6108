"""Two gloo ranks that save, load and fail together; run as a script, prints what each saw as JSON.

Forks after importing torch once: an import costs more than everything done here.
"""

import json
import os
import resource
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from surefoot.train.checkpoint import find_sound_checkpoint, load_tensors, save_checkpoint
from surefoot.train.find import find_checkpoint
from surefoot.types.errors import CheckpointError

WHOLE = torch.arange(15.0).reshape(5, 3)  # five rows on two ranks: uneven shards


def sharded(value: torch.Tensor) -> dict[str, Any]:
    return {"policy": {"w": distribute_tensor(value, init_device_mesh("cpu", (2,)), [Shard(0)])}, "n": 7}


def limit_file_size(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def outcome(call: Callable[[], Any]) -> str:
    try:
        return str(call())
    except CheckpointError as error:
        return f"CheckpointError {error}"


def scenario(rank: int, root: Path) -> dict[str, Any]:
    seen: dict[str, Any] = {}

    def save(name: str, step: int, state: dict[str, Any]) -> str:
        tensors = sharded(WHOLE)
        return outcome(
            lambda: save_checkpoint(
                root / name, step, tensors=tensors, loop_state=state, weights_digest="d", keep_last=1
            )
        )

    def load(name: str, value: dict[str, Any]) -> str:
        return outcome(lambda: load_tensors(root / name / "step-000001", value))

    seen["saved"] = save("two", 1, {"rank": rank})
    target = sharded(torch.zeros(5, 3))
    seen["loaded"] = load("two", target)
    seen["equal"] = bool((target["policy"]["w"].full_tensor() == WHOLE).all())
    from_one = sharded(torch.zeros(5, 3))
    seen["loaded_from_one"] = load("one", from_one)
    seen["equal_from_one"] = bool((from_one["policy"]["w"].full_tensor() == WHOLE).all())
    if rank == 1:
        limit_file_size(64)
    seen["rank_1_cannot_write"] = save("two", 2, {})
    limit_file_size(resource.RLIM_INFINITY)
    if rank == 0:
        limit_file_size(50_000)
    seen["rank_0_cannot_finish"] = save("two", 2, {"pad": "x" * 60_000})
    limit_file_size(resource.RLIM_INFINITY)
    seen["rank_0_has_a_bad_state"] = save("two", 2, {"tuple": (1, 2)} if rank == 0 else {})
    seen["found"] = str(find_checkpoint(root / "two")[0])
    seen["wrong_shape"] = load("two", sharded(torch.zeros(4, 3)))
    dist.barrier()
    seen["damaged"] = load("damaged", sharded(torch.zeros(5, 3)))
    found, ignored = find_sound_checkpoint(root / "damaged")
    seen["sound"] = [found, *(reason for _, reason in ignored)]
    seen["good_after_all"] = save("two", 2, {"rank": rank})
    return seen


def run_rank(rank: int, root: Path) -> None:
    dist.init_process_group(
        "gloo", init_method=f"file://{root}/rendezvous", rank=rank, world_size=2, timeout=timedelta(seconds=40)
    )
    (root / f"rank{rank}.json").write_text(json.dumps(scenario(rank, root)), encoding="utf8")
    dist.destroy_process_group()


def main(root: Path) -> None:
    for name in ("one", "damaged"):
        folder = save_checkpoint(
            root / name, 1, tensors={"policy": {"w": WHOLE}, "n": 7}, loop_state={}, weights_digest="d", keep_last=1
        )
    shard = folder / "tensors" / "__0_0.distcp"
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")
    children = []
    for rank in range(2):
        child = os.fork()
        if child == 0:
            run_rank(rank, root)
            os._exit(0)
        children.append(child)
    statuses = [os.waitpid(child, 0)[1] for child in children]
    whole = {"policy": {"w": torch.zeros(5, 3)}, "n": 0}
    load_tensors(root / "two" / "step-000002", whole)
    ranks = [json.loads((root / f"rank{rank}.json").read_text(encoding="utf8")) for rank in range(2)]
    one_process = bool((whole["policy"]["w"] == WHOLE).all()) and whole["n"] == 7
    print(json.dumps({"statuses": statuses, "ranks": ranks, "one_process_equal": one_process}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
