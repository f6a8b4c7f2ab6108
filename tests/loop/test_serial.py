"""Whole small runs: what is learnt, recorded and refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from runs import digests, query
from support import save_run
from surefoot.cli.main import run_command
from surefoot.config.load import load_config
from surefoot.loop.run import run
from surefoot.observe.ledger_view import LedgerView
from surefoot.observe.metrics import read_metrics
from surefoot.train.step import Trainer
from surefoot.types.errors import CheckpointError, ConfigError, DataError, ModelError, RunHalted, UsageError


def start(config: Path, folder: Path, *overrides: str, **keywords: Any) -> dict[str, float]:
    return run(load_config(config, f'observe.run_dir="{folder}"', *overrides), **keywords).metrics


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_run(tmp_path_factory.mktemp("run"))


def test_sampler_and_trainer_agree_over_a_run(config: Path, tmp_path: Path) -> None:
    """fp32, contexts of different lengths, packed several to a micro-batch, while the weights move."""
    start(config, tmp_path / "run", "loop.steps=12", "optim.lr=1e-2", "train.max_tokens=40", "rollout.temperature=1.3")
    gaps = [row[0] for row in query(tmp_path / "run", "SELECT mismatch_max FROM steps")]
    assert len(gaps) == 12 and max(gaps) < 1e-5


def test_it_learns(config: Path, tmp_path: Path) -> None:
    start(config, tmp_path / "run", "loop.steps=40", "rollout.group_size=8", "optim.lr=5e-3", "checkpoint.every=0")
    means = [row[0] for row in query(tmp_path / "run", "SELECT reward_mean FROM steps ORDER BY step")]
    assert sum(means[-5:]) / 5 > sum(means[:5]) / 5 + 0.2


@pytest.mark.parametrize("estimator", ["grpo", "dr_grpo", "rloo"])
@pytest.mark.parametrize("kl_kind", ["k1", "k2", "k3", "low_var_kl"])
def test_every_choice_runs(config: Path, tmp_path: Path, estimator: str, kl_kind: str) -> None:
    aggregation = {"grpo": "token_mean", "dr_grpo": "constant", "rloo": "sample_mean"}[estimator]
    metrics = start(
        config,
        tmp_path / "run",
        "loop.steps=2",
        "train.updates_per_rollout=2",
        "train.epochs=2",
        f'algo.estimator="{estimator}"',
        f'algo.aggregation="{aggregation}"',
        f'algo.kl_kind="{kl_kind}"',
        "algo.kl_coef=0.05",
        "reference.update_interval=3",
    )
    assert metrics["train/applied"] == 4
    assert metrics["train/kl_reference"] != 0


def test_the_reference_is_loaded_only_where_it_is_used(config: Path, tmp_path: Path) -> None:
    start(config, tmp_path / "unused", 'reference.path="nowhere"', "loop.steps=1")
    for use in ("algo.kl_coef=0.1", "algo.kl_metric=true"):
        with pytest.raises(ModelError, match="nowhere"):
            start(config, tmp_path / use, 'reference.path="nowhere"', use, "loop.steps=1")


def test_failing_rewards_cost_their_own_samples_only(config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    start(config, folder, 'env.rewards=[{function="letters.moody_reward"}]')
    counts = dict(query(folder, "SELECT fate, count(*) FROM samples GROUP BY fate"))
    reasons = {row[0] for row in query(folder, "SELECT DISTINCT reason FROM samples WHERE fate = 'dropped'")}
    assert counts["trained"] > 0 and counts["trained"] + counts["dropped"] == 6 * 2 * 4
    assert any("no grade today" in reason for reason in reasons) and any("None" in reason for reason in reasons)
    fates = {row[0]: row[1:] for row in query(folder, "SELECT prompt_id, fate, reason FROM prompts")}
    assert fates["p3"][0] == "dropped" and "no grade today" in fates["p3"][1]
    assert "partly_trained" in {fate for fate, _ in fates.values()}
    with LedgerView.read(folder / "ledger.sqlite") as ledger:
        assert ledger.balance().unaccounted == 0


def test_async_rewards(config: Path, tmp_path: Path) -> None:
    start(config, tmp_path / "run", 'env.rewards=[{function="letters.slow_reward"}]', "loop.steps=2")


def test_prompts_that_are_too_long_are_dropped_with_the_reason(config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    start(config, folder, "rollout.max_prompt_tokens=3")
    dropped = query(folder, "SELECT prompt_id, reason FROM prompts WHERE fate = 'dropped'")
    assert {row[0] for row in dropped} == {"p3", "p4", "p8", "p9"}  # of 4 and 5 letters
    assert all("prompt_too_long" in row[1] for row in dropped)


def test_evaluation_leaves_training_alone(config: Path, tmp_path: Path) -> None:
    text = config.read_text(encoding="utf8")
    prompts = config.parent / "prompts.jsonl"
    with_eval = tmp_path / "eval.toml"
    with_eval.write_text(
        text + f'\n[eval]\nevery = 2\n[[eval.sets]]\nname = "held"\npath = "{prompts}"\nlabel_key = ""\nsamples = 3\n',
        encoding="utf8",
    )
    start(config, tmp_path / "off")
    metrics = start(with_eval, tmp_path / "on")
    assert digests(tmp_path / "off") == digests(tmp_path / "on")
    assert metrics["eval/held/rollouts"] == 36
    assert [line["step"] for line in read_metrics(tmp_path / "on" / "metrics.jsonl") if "eval/held/reward" in line] == [
        0,
        2,
        4,
        6,
    ]


@pytest.mark.parametrize("where", ["publish", "attempt"])
def test_ruined_weights_halt_the_run(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """A weight turns NaN after the second update, or while the third step's batch waits: no later step is taken."""
    folder = tmp_path / "run"
    calls = []

    def ruin(trainer: Trainer) -> None:
        calls.append(1)
        if len(calls) == (2 if where == "publish" else 3):
            trainer.masters.tensors[1].data[0, 0] = float("nan")

    apply, attempt = Trainer._apply, Trainer.attempt
    if where == "publish":
        monkeypatch.setattr(Trainer, "_apply", lambda self, *a: (apply(self, *a), ruin(self))[0])
    else:
        monkeypatch.setattr(Trainer, "attempt", lambda self, *a, **k: (ruin(self), attempt(self, *a, **k))[1])
    assert run_command(["train", str(config), f'observe.run_dir="{folder}"']) == 1
    last = capsys.readouterr().err.strip().splitlines()[-1]
    rows = query(folder, "SELECT step, verdict, reason FROM steps ORDER BY step, attempt")
    assert rows[:2] == [(1, "applied", "ok"), (2, "applied", "ok")]
    if where == "publish":  # before anything is sampled from them, or saved
        assert "nonfinite_param" in last and rows[2:] == [(2, "halted", "nonfinite_param")]
        assert not (folder / "checkpoints" / "step-000002").exists()
    else:
        assert "nonfinite_param" in last and rows[2:] == [(3, "halted", "nonfinite_param")]


def test_a_halt_is_in_the_ledger(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    reward = 'env.rewards=[{function="letters.failing_reward"}]'
    with pytest.raises(RunHalted, match="step 3: skip_budget_exhausted"):
        start(config, folder, reward, "train.max_consecutive_skips=2", "train.epochs=3", "loop.steps=9")
    rows = query(folder, "SELECT step, verdict, reason FROM steps ORDER BY step")
    assert rows == [
        (1, "skipped", "empty_batch"),
        (2, "skipped", "empty_batch"),
        (3, "halted", "skip_budget_exhausted"),
    ]
    lines = read_metrics(folder / "metrics.jsonl")
    assert [line["groups/no_valid"] for line in lines] == [2.0] * 3
    assert "8 dropped: reward: letters.failing_reward raised ValueError: no grade" in capsys.readouterr().err
    with LedgerView.read(folder / "ledger.sqlite") as ledger:
        balance = ledger.balance()
        kinds = [row[0] for row in ledger.query("SELECT kind FROM events")[1]]
    assert balance.in_flight == 0 and balance.unaccounted == 0 and balance.trained == 0
    assert kinds[-1] == "ended"


def test_a_solved_task_does_not_end_a_run(config: Path, tmp_path: Path) -> None:
    """Equal rewards give no signal: the steps are skipped, for that reason, for as long as the run was asked to go."""
    reward = 'env.rewards=[{function="letters.constant_reward"}]'
    start(config, tmp_path / "run", reward, "train.max_consecutive_skips=1", "train.epochs=2")
    assert {row[0] for row in query(tmp_path / "run", "SELECT reason FROM steps")} == {"zero_signal"}
    reported = [line["groups/zero_variance"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl")]
    assert reported == [2.0] * 6  # both groups of each step
    assert query(tmp_path / "run", "SELECT count(DISTINCT step) FROM steps") == [(6,)]


def test_skipped_steps_publish_nothing(config: Path, tmp_path: Path) -> None:
    start(config, tmp_path / "run", 'env.rewards=[{function="letters.constant_reward"}]', "loop.steps=3")
    versions = query(tmp_path / "run", "SELECT policy_version, min_version, max_version FROM steps")
    assert versions == [(0, 0, 0)] * 3


def test_data_problems_come_before_the_model(config: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"prompt": "abc"}\n{"prompt": \n', encoding="utf8")
    with pytest.raises(DataError, match=r"broken.jsonl:2"):
        start(config, tmp_path / "run", f'data.path="{broken}"', 'model.path="nowhere"')
    with pytest.raises(ModelError, match="nowhere"):
        start(config, tmp_path / "run", 'model.path="nowhere"')
    assert not (tmp_path / "run").exists()  # so the mended run can start


def test_a_broken_checkpoint_is_passed_over_and_named(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    start(config, folder, "loop.steps=3", "checkpoint.keep_last=3")
    (folder / "checkpoints" / "step-000003" / "loop.json").unlink()
    start(config, folder, resume=True)
    said = capsys.readouterr()
    assert "step-000003 is ignored" in said.err and "loop.json" in said.err
    assert "resumed after step 2" in said.out
    start(config, tmp_path / "whole")
    assert digests(folder) == digests(tmp_path / "whole")


def test_a_resume_under_another_seed_or_other_data_is_refused(config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    start(config, folder, "loop.steps=2")
    kept = (folder / "config.toml").read_bytes()
    other = tmp_path / "other.jsonl"
    lines = (config.parent / "prompts.jsonl").read_text(encoding="utf8").splitlines()
    other.write_text("\n".join(lines[::-1]) + "\n", encoding="utf8")
    for change in ("loop.seed=7", f'data.path="{other}"', "data.shuffle=false"):
        with pytest.raises(UsageError, match=r"loop\.seed or the data changed"):
            start(config, folder, "loop.steps=4", change, resume=True)
    assert (folder / "config.toml").read_bytes() == kept
    start(config, folder, "loop.steps=4", "optim.lr=1e-4", resume=True)
    events = [row for row in query(folder, "SELECT kind, detail FROM events") if row[0] == "config_changed"]
    assert len(events) == 1 and "lr = 0.0001" in events[0][1]


def test_a_finished_run_resumed_changes_nothing(config: Path, tmp_path: Path) -> None:
    text = config.read_text(encoding="utf8")
    prompts = config.parent / "prompts.jsonl"
    with_eval = tmp_path / "eval.toml"
    with_eval.write_text(
        text + f'\n[[eval.sets]]\nname = "held"\npath = "{prompts}"\nlabel_key = ""\n', encoding="utf8"
    )
    folder = tmp_path / "run"
    start(with_eval, folder)
    before = digests(folder), read_metrics(folder / "metrics.jsonl")
    start(with_eval, folder, resume=True)
    assert (digests(folder), read_metrics(folder / "metrics.jsonl")) == before


def test_a_ledger_that_is_not_the_checkpoint_s_is_refused(config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    start(config, folder, "loop.steps=2")
    for file in folder.glob("ledger.sqlite*"):
        file.unlink()
    with pytest.raises(CheckpointError, match="not the one this run wrote"):
        start(config, folder, resume=True)


def test_prompts_that_cannot_be_encoded_are_dropped(config: Path, tmp_path: Path) -> None:
    data = tmp_path / "mixed.jsonl"
    chat = [{"role": "system", "content": "s"}, {"role": "user", "content": "abc"}]
    rows = [{"id": "good", "prompt": "abc"}, {"id": "bad", "prompt": chat}]
    data.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf8")
    start(config, tmp_path / "run", f'data.path="{data}"', "rollout.prompts_per_step=1", "loop.steps=2")
    fates = dict(query(tmp_path / "run", "SELECT prompt_id, fate FROM prompts"))
    assert fates == {"good": "trained", "bad": "dropped"}


def test_data_that_leave_no_full_batch_are_refused_with_the_reasons(config: Path, tmp_path: Path) -> None:
    data = tmp_path / "thin.jsonl"
    chat = [{"role": "system", "content": "s"}, {"role": "user", "content": "abc"}]
    rows = [{"id": "good", "prompt": "abc"}, {"id": "long", "prompt": "a" * 17}, {"id": "chat", "prompt": chat}]
    data.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf8")
    with pytest.raises(DataError) as caught:
        start(config, tmp_path / "run", f'data.path="{data}"')
    first, *reasons = str(caught.value).splitlines()
    assert first == "data: 1 of 3 prompts can be used: no full batch of rollout.prompts_per_step = 2"
    assert reasons[0] == "1 of them like prompt long: prompt_too_long: 17 > 16 tokens"
    assert reasons[1].startswith("1 of them like prompt chat: prompt: ")
    assert not (tmp_path / "run").exists()


def test_the_model_s_context_is_a_limit(tmp_path: Path) -> None:
    """GPT-2 with 128 positions: what does not fit is dropped, and a length that leaves no room is refused."""
    config = save_run(tmp_path, kind="gpt2")
    long = ("train.max_tokens=200", "loop.steps=2", "rollout.group_size=2")
    start(config, tmp_path / "run", "rollout.max_new_tokens=125", *long)
    dropped = query(tmp_path / "run", "SELECT reason FROM prompts WHERE fate = 'dropped'")
    assert all("> 3 tokens" in row[0] for row in dropped)
    with pytest.raises(ConfigError, match="max_new_tokens"):
        start(config, tmp_path / "none", "rollout.max_new_tokens=128", *long)


def test_a_stop_string_that_decoding_drops_is_refused(config: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="special token"):
        start(config, tmp_path / "run", 'rollout.stop=["#"]')


def test_resume_takes_the_newest_run_of_that_very_name(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = config.read_text(encoding="utf8").replace("run_dir", "# run_dir")
    mine = tmp_path / "mine.toml"
    mine.write_text(text, encoding="utf8")
    for name in ("run", "run-big"):
        run(load_config(mine, f'loop.name="{name}"', "loop.steps=1"))
    resumed = run(load_config(mine, "loop.steps=2"), resume=True)
    assert "big" not in resumed.run_dir.name and resumed.steps == 2
