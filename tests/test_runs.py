"""The launcher of several ranks tells a failure, and does not wait for those that wait for the failed one."""

from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = """import torch.distributed as dist

dist.init_process_group("gloo")
print("rank", dist.get_rank(), "of", dist.get_world_size(), flush=True)
if dist.get_rank() == 1:
    raise ValueError("rank 1 broke")
dist.barrier()
"""


def test_a_rank_that_fails_fails_the_launch(tmp_path: Path, torchrun: Callable[..., str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf8")
    with pytest.raises(AssertionError, match=r"(?s)rank 0 of 2\nrank 1 of 2\n.*ValueError: rank 1 broke"):
        torchrun(script, timeout=30)
    script.write_text(SCRIPT.replace("== 1", "== 2"), encoding="utf8")
    assert torchrun(script, timeout=30) == "rank 0 of 2\nrank 1 of 2\n"
