"""Debug modes: rollouts without training, training without rollouts, and neither data nor sampling."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from runs import digests, query
from support import save_run
from surefoot.config.load import load_config
from surefoot.config.schema import LengthsConfig
from surefoot.loop.fake import FakeRollouts
from surefoot.loop.run import run
from surefoot.loop.saved import SavedRollouts
from surefoot.observe.rollouts import read_rollouts
from surefoot.train.manifest import read_manifest
from surefoot.types.errors import ConfigError, DataError, UsageError

LOSSES = "SELECT step, attempt, verdict, reason, loss, grad_norm, num_tokens, mismatch_max, lr FROM steps ORDER BY 1, 2"
SETTINGS = """
train = {updates_per_rollout = 2, epochs = 2}
algo = {kl_coef = 0.02}
optim = {schedule = "linear", warmup = 2}
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_run(tmp_path_factory.mktemp("run"), text=SETTINGS)


@pytest.fixture(scope="module")
def live(config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("live") / "run"
    start(config, folder)
    return folder


def start(config: Path, folder: Path, *overrides: str, resume: bool = False) -> dict[str, float]:
    return run(load_config(config, f'observe.run_dir="{folder}"', *overrides), resume=resume).metrics


def weights(folder: Path) -> str:
    return digests(folder)[0]


def test_training_on_saved_rollouts_gives_the_live_run_s_losses_to_the_bit(
    config: Path, live: Path, tmp_path: Path
) -> None:
    saved = ('debug.mode="train_only"', f'debug.rollouts="{live / "rollouts"}"', 'data.path="gone"')
    start(config, tmp_path / "run", *saved)
    assert query(tmp_path / "run", LOSSES) == query(live, LOSSES)
    assert weights(tmp_path / "run") == weights(live)


def test_training_on_saved_rollouts_resumes(config: Path, live: Path, tmp_path: Path) -> None:
    saved = ('debug.mode="train_only"', f'debug.rollouts="{live / "rollouts"}"')
    start(config, tmp_path / "run", *saved)
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-000006")
    start(config, tmp_path / "run", *saved, resume=True)
    assert weights(tmp_path / "run") == weights(live)


def test_the_saved_rollouts_end_the_run(config: Path, live: Path, tmp_path: Path) -> None:
    saved = ('debug.mode="train_only"', f'debug.rollouts="{live / "rollouts"}"')
    assert start(config, tmp_path / "run", *saved, "loop.steps=100")["train/applied"] > 0
    assert query(tmp_path / "run", "SELECT max(step) FROM steps") == [(6,)]


def test_saved_rollouts_that_are_none(tmp_path: Path, live: Path) -> None:
    with pytest.raises(DataError, match=r"holds no step-\*\.parquet"):
        SavedRollouts(tmp_path)
    with pytest.raises(UsageError, match="not a whole number of the saved steps"):
        SavedRollouts(live / "rollouts").seek(1)


def test_rollouts_alone_are_those_of_the_first_policy_and_change_nothing(
    config: Path, live: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    start(config, folder, 'debug.mode="rollout_only"', "loop.steps=3")
    assert query(folder, "SELECT step, verdict, reason, policy_version FROM steps") == [
        (step, "skipped", "rollout_only", 0) for step in (1, 2, 3)
    ]
    first, again = (read_rollouts(run_ / "rollouts" / "step-000001.parquet") for run_ in (folder, live))
    assert [r.response for g in first for r in g.rollouts] == [r.response for g in again for r in g.rollouts]
    fates = query(folder, "SELECT DISTINCT fate, reason FROM prompts")
    assert len(fates) == 1 and fates[0][0] == "dropped" and "skipped: rollout_only" in fates[0][1]
    checkpoints = sorted((folder / "checkpoints").iterdir())
    assert len({read_manifest(path).weights_digest for path in checkpoints}) == 1


def test_rollouts_alone_can_be_trained_on_later(config: Path, live: Path, tmp_path: Path) -> None:
    """Step 1 of both is on-policy; a later step of the second is stale by design and is scored by the trainer."""
    start(config, tmp_path / "sampled", 'debug.mode="rollout_only"')
    saved = ('debug.mode="train_only"', f'debug.rollouts="{tmp_path / "sampled" / "rollouts"}"')
    start(config, tmp_path / "trained", *saved)
    rows = query(tmp_path / "trained", LOSSES)
    assert rows[:4] == query(live, LOSSES)[:4]
    assert [row[2] for row in rows] == ["applied"] * 24


def test_fake_data_train_in_the_given_lengths(config: Path, tmp_path: Path) -> None:
    mix = "debug.lengths=[{prompt=5, completion=7, weight=3.0}, {prompt=5, completion=40}]"
    start(config, tmp_path / "run", 'debug.mode="fake_data"', mix, 'data.path="gone"', "loop.steps=3")
    assert query(tmp_path / "run", "SELECT DISTINCT verdict FROM steps") == [("applied",)]
    lengths = {n for (n,) in query(tmp_path / "run", "SELECT DISTINCT num_tokens FROM samples")}
    assert lengths == {7, 40}


def test_fake_lengths_follow_their_weights() -> None:
    lengths = [LengthsConfig(prompt=3, completion=10, weight=9.0), LengthsConfig(prompt=4, completion=20, weight=1.0)]
    fake = FakeRollouts(lengths, group_size=4, vocabulary=50, version=lambda: 7, seed=1)
    groups = [fake._group(draw) for draw in fake.draw(500)]
    turns = [rollout.turns[0] for group in groups for rollout in group.rollouts]
    made = np.array([len(turn.generation.token_ids_C) for turn in turns])
    assert 0.87 < (made == 10).mean() < 0.93 and set(made) == {10, 20}
    assert {int(v) for turn in turns for v in turn.generation.versions_C} == {7}
    assert max(int(turn.generation.token_ids_C.max()) for turn in turns) == 49
    fake.seek(0)
    assert np.array_equal(fake._group(fake.draw(1)[0]).rollouts[0].turns[0].prompt_ids_L, turns[0].prompt_ids_L)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (('debug.mode="train_only"',), "debug.rollouts"),
        (('debug.mode="fake_data"',), "debug.lengths"),
        (('debug.mode="fake_data"', "debug.lengths=[{prompt=60, completion=5}]"), "65 tokens do not fit"),
    ],
)
def test_what_a_mode_lacks_is_said_at_start(
    config: Path, tmp_path: Path, overrides: tuple[str, ...], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        start(config, tmp_path / "run", *overrides)
