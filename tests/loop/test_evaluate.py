"""Evaluation: own sampling and rewards, right figures, and a training that does not notice it."""

import json
from pathlib import Path

import pytest

from letters import LETTERS
from runs import digests, query
from support import save_run
from surefoot.config.load import load_config
from surefoot.loop.assess import assess
from surefoot.loop.collect import Collected
from surefoot.loop.evaluate import Evaluation, summarize
from surefoot.loop.run import run
from surefoot.observe.console import Console
from surefoot.observe.metrics import read_metrics
from surefoot.observe.rollouts import read_rollouts
from surefoot.types.errors import ConfigError
from surefoot.types.rollout import Group, Message, Prompt, Rollout


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_run(tmp_path_factory.mktemp("run"))


def sets(config: Path) -> str:
    """Three sets: one that differs in everything, one greedy, one as the training is."""
    data = f'path="{config.parent / "prompts.jsonl"}", label_key=""'
    own = 'samples=5, temperature=0.7, max_new_tokens=9, max_prompt_tokens=3, stop=["A"]'
    reward = 'rewards=[{function="letters.long_enough", part="length"}]'
    return (
        f'eval.sets=[{{name="own", rows=":7", {data}, {own}, {reward}}}, '
        f'{{name="greedy", rows="7:", {data}, temperature=0}}, {{name="plain", rows="::3", {data}}}]'
    )


def start(config: Path, folder: Path, *overrides: str) -> dict[str, float]:
    return run(load_config(config, f'observe.run_dir="{folder}"', *overrides)).metrics


@pytest.fixture(scope="module")
def evaluated(config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluated") / "run"
    start(config, folder, sets(config), "eval.every=2")
    return folder


def test_training_is_bit_identical_with_and_without(config: Path, evaluated: Path, tmp_path: Path) -> None:
    start(config, tmp_path / "plain")
    assert digests(tmp_path / "plain") == digests(evaluated)


def test_every_set_is_evaluated_before_and_every_n_steps(evaluated: Path) -> None:
    records = [record for record in read_metrics(evaluated / "metrics.jsonl") if "eval/own/accuracy" in record]
    assert [record["step"] for record in records] == [0, 2, 4, 6]
    names = {path.name for path in (evaluated / "rollouts").glob("eval-*")}
    assert names == {
        f"eval-{name}-step-{step:06d}.parquet" for name in ("own", "greedy", "plain") for step in (0, 2, 4, 6)
    }


def test_a_set_has_its_own_sampling_and_rewards(config: Path, evaluated: Path) -> None:
    groups = read_rollouts(evaluated / "rollouts" / "eval-own-step-000000.parquet")
    lengths = [len(r.turns[0].generation.token_ids_C) for g in groups for r in g.rollouts]
    assert max(lengths) > 6 and max(lengths) <= 9  # rollout.max_new_tokens is 6
    assert {len(group.rollouts) for group in groups} == {5}
    assert any(r.stop == "stop_string" for g in groups for r in g.rollouts)
    assert {name for g in groups for r in g.rollouts for name in r.reward_parts} == {"length"}
    (record,) = (r for r in read_metrics(evaluated / "metrics.jsonl") if r.get("eval/own/prompts") and r["step"] == 0)
    assert record["eval/own/dropped"] == sum(len(group_prompt(i)) > 3 for i in range(7))


def group_prompt(row: int) -> str:
    return LETTERS[row % 20 : row % 20 + 1 + row % 5]


def test_the_figures_are_those_of_the_answers(evaluated: Path) -> None:
    groups = read_rollouts(evaluated / "rollouts" / "eval-own-step-000006.parquet")
    right = [sum(r.reward == 1 for r in g.rollouts) / 5 for g in groups]
    (record,) = (r for r in read_metrics(evaluated / "metrics.jsonl") if "eval/own/accuracy" in r and r["step"] == 6)
    assert record["eval/own/accuracy"] == pytest.approx(sum(right) / len(right))
    assert record["eval/own/pass@5"] == sum(share > 0 for share in right) / len(right)
    assert record["eval/own/accuracy_low"] <= record["eval/own/accuracy"] <= record["eval/own/accuracy_high"]


def test_a_checkpoint_evaluated_on_its_own_gives_the_run_s_answers(
    config: Path, evaluated: Path, tmp_path: Path
) -> None:
    settings = load_config(evaluated / "config.toml")
    quiet = Console(quiet=True)
    for step, checkpoint in ((6, evaluated), (0, None)):
        (own, greedy, plain) = assess(settings, checkpoint, save=tmp_path, console=quiet)
        (record,) = (
            r for r in read_metrics(evaluated / "metrics.jsonl") if r["step"] == step and "eval/own/length" in r
        )
        assert {k: v for k, v in record.items() if k.startswith("eval/own/")} == pytest.approx(own.metrics())
        for name in ("own", "greedy", "plain"):
            file = f"eval-{name}-step-{step:06d}.parquet"
            responses = [
                [r.response for g in read_rollouts(folder / file) for r in g.rollouts]
                for folder in (tmp_path, evaluated / "rollouts")
            ]
            assert responses[0] == responses[1]
        assert greedy.name == "greedy" and plain.figures["rollouts"] == 4


def test_nothing_to_evaluate_is_said(config: Path) -> None:
    with pytest.raises(ConfigError, match=r"eval\.sets"):
        assess(load_config(config), None, save=None, console=Console(quiet=True))


def answers(rewards: list[list[float | None]]) -> Evaluation:
    """An evaluation of groups with these rewards; None is an invalid answer."""
    prompt = Prompt("p", "", (Message("user", "?"),), {"label": None, "metadata": {}})

    def rollout(reward: float | None) -> Rollout:
        value = float("nan") if reward is None else reward
        return Rollout(
            turns=(),
            stop="eos",
            response="",
            seed=0,
            reward=value,
            reward_parts={},
            answers={},
            invalid="" if reward is not None else "reward: none",
        )

    groups = tuple(Group(i, prompt, tuple(map(rollout, row))) for i, row in enumerate(rewards))
    return summarize("set", Collected(groups, {99: "prompt_too_long"}), 1.0, len(rewards[0]))


def test_an_invalid_answer_is_a_wrong_one_and_a_dropped_prompt_none() -> None:
    evaluation = answers([[1, 1, 0, None], [0, 0, None, None], [None] * 4])
    assert evaluation.accuracy.mean == pytest.approx((0.5 + 0 + 0) / 3)
    assert evaluation.passes[2].mean == pytest.approx((1 - 1 / 6) / 3)  # C(2,2) / C(4,2) miss it
    assert evaluation.passes[4].mean == pytest.approx(1 / 3)
    assert evaluation.reward.mean == pytest.approx((2 / 3 + 0) / 2)
    assert (evaluation.figures["invalid"], evaluation.figures["dropped"], evaluation.figures["prompts"]) == (7, 1, 3)


def test_no_answer_at_all_is_nan_not_an_error() -> None:
    evaluation = summarize("set", Collected((), {0: "prompt_too_long"}), 1.0, 2)
    assert str(evaluation.accuracy.mean) == "nan"
    assert json.loads(json.dumps(evaluation.figures))["dropped"] == 1


def test_events_and_steps_of_the_ledger_know_nothing_of_it(evaluated: Path) -> None:
    assert query(evaluated, "SELECT count(*) FROM prompts") == [(12,)]
