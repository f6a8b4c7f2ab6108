"""h1-data-order-resume, serial form: a kill at any step loses no prompt, trains none twice, skips no epoch.

Source: NVIDIA-NeMo/RL#3599. Order of prompts, sampled tokens and weights equal those of the unbroken run.
"""

from pathlib import Path
from typing import Any

import pytest

from runs import digests, job, query, run_all
from support import save_run
from surefoot.observe.rollouts import read_rollouts


def trained(folder: Path) -> list[str]:
    return [
        row[0]
        for row in query(
            folder, "SELECT prompt_id FROM prompts WHERE superseded = 0 AND fate = 'trained' ORDER BY draw"
        )
    ]


def steps(folder: Path) -> int:
    return int(query(folder, "SELECT count(DISTINCT step) FROM steps WHERE superseded = 0")[0][0])


def sampled(folder: Path) -> list[Any]:
    files = sorted((folder / "rollouts").glob("*.parquet"))
    groups = [group for file in files for group in read_rollouts(file)]
    return [(group.prompt.id, [r.turns[0].generation.token_ids_C.tolist() for r in group.rollouts]) for group in groups]


@pytest.mark.parametrize("case", ["one epoch of 12, 2 a step", "three epochs of 8, 4 a step"])
def test_every_prompt_is_trained_once_an_epoch(tmp_path: Path, case: str) -> None:
    rows, batch, epochs = (12, 2, 1) if case.startswith("one") else (8, 4, 3)
    text = f"rollout = {{prompts_per_step = {batch}}}\ndata = {{epochs = {epochs}}}\nloop = {{steps = 0}}"
    config = save_run(tmp_path, rows=rows, text=text)
    whole = tmp_path / "whole"
    stops = range(1, 7) if epochs == 1 else (1, 2, 5)  # of three: within the first, between two, within the last
    jobs = [job(config, whole)]
    for stop in stops:  # die while step stop + 1 is being committed, after its checkpoint of step `stop`
        folder = tmp_path / f"stop-{stop}"
        kill = ("ledger", stop + 1) if stop < 6 else ("rename", 1_000_000)
        jobs += [job(config, folder, kill=kill), job(config, folder, resume=True)]
    statuses = run_all(jobs)
    assert statuses[0] == 0 and set(statuses[2::2]) == {0}
    for folder in (whole, *(tmp_path / f"stop-{stop}" for stop in stops)):
        assert steps(folder) == 6
        names = trained(folder)
        assert len(names) == rows * epochs
        assert all(
            sorted(names[i : i + rows]) == sorted(f"p{n}" for n in range(rows)) for i in range(0, len(names), rows)
        )
        assert names == trained(whole)
        assert sampled(folder) == sampled(whole)
        assert digests(folder) == digests(whole)
