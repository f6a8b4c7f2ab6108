"""Kill -9 at many points and resume: the digests of weights and ledger are those of a run that was not killed."""

from pathlib import Path

import pytest

from runs import digests, job, query, run_all
from support import save_run

POINTS = [
    ("sampling", 1),  # before any checkpoint
    ("sampling", 14),
    ("update", 1),
    ("update", 4),
    ("ledger", 3),
    ("after_ledger", 3),  # the ledger is ahead of the metrics and of the checkpoint
    *(("replace", n) for n in (2, 3, 5, 8)),  # rollouts; a whole checkpoint takes its name; an older one goes
    ("rename", 2),  # half-way through a checkpoint's tensors
    *(("fsync", n) for n in (5, 9, 12, 16, 21)),  # inside one
]
SETTINGS = """
train = {updates_per_rollout = 2, epochs = 2}
algo = {kl_coef = 0.02}
reference = {update_interval = 3}
data = {epochs = 2}
optim = {schedule = "linear", warmup = 2}
loop = {steps = 5}
checkpoint = {keep_last = 2}
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_run(tmp_path_factory.mktemp("run"), rows=3, text=SETTINGS)


@pytest.fixture(scope="module")
def whole(config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that is not killed."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert run_all([job(config, folder)]) == [0]
    return folder


def test_a_run_repeats(config: Path, whole: Path, tmp_path: Path) -> None:
    """Same config and seed, same digests; another seed, other ones."""
    assert run_all([job(config, tmp_path / "two"), job(config, tmp_path / "other", "loop.seed=1")]) == [0, 0]
    one, two, other = (digests(folder) for folder in (whole, tmp_path / "two", tmp_path / "other"))
    assert one == two
    assert one[0] != other[0] and one[1] != other[1]


def test_killed_runs_resume_to_the_same_digests(config: Path, whole: Path, tmp_path: Path) -> None:
    jobs = []
    for point, number in POINTS:
        folder = tmp_path / f"{point}-{number}"
        jobs += [job(config, folder, kill=(point, number)), job(config, folder, resume=True)]
    statuses = run_all(jobs)
    assert statuses == [-9, 0] * len(POINTS), list(zip(POINTS, statuses[::2], statuses[1::2], strict=True))
    right = digests(whole)
    wrong = [point for point in POINTS if digests(tmp_path / f"{point[0]}-{point[1]}") != right]
    assert not wrong


def test_killed_again_and_again(config: Path, tmp_path: Path) -> None:
    """With a reward of the user's, so that worker processes are orphaned by each kill."""
    reward = 'env.rewards=[{function="letters.letter_reward"}]'
    whole, folder = tmp_path / "whole", tmp_path / "unlucky"
    kills = [("update", 2), ("sampling", 9), ("update", 5), ("fsync", 9), ("rename", 1)]
    jobs = [job(config, folder, reward, resume=i > 0, kill=kill) for i, kill in enumerate(kills)]
    statuses = run_all([job(config, whole, reward), *jobs, job(config, folder, reward, resume=True)])
    assert statuses == [0, *[-9] * len(kills), 0]
    assert digests(folder) == digests(whole)
    drawn, settled = query(folder, "SELECT count(*), sum(fate != 'in_flight') FROM prompts WHERE superseded = 0")[0]
    assert drawn == settled == query(whole, "SELECT count(*) FROM prompts")[0][0]
