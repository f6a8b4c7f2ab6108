"""Whole runs in which a number goes bad: they go on or end as configured, and nothing is lost from the books."""

from collections.abc import Iterator
from pathlib import Path

import gradient_hooks
import pytest
import torch
from torch import Tensor

from letters import LETTERS
from runs import query
from support import VOCAB, save_run
from surefoot.cli.main import run_command
from surefoot.engines.inprocess.engine import InProcessEngine
from surefoot.observe.ledger_view import LedgerView
from surefoot.observe.rollouts import read_rollouts
from surefoot.train.roles import Roles
from surefoot.train.step import Trainer, TrainerConfig
from surefoot.types.rollout import Rollout

BOMB = VOCAB - 1
TEXT = """
rollout = {prompts_per_step = 3}
loop = {steps = 4}
checkpoint = {every = 0}
optim = {lr = 1e-3}
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_run(tmp_path_factory.mktemp("run"), text=TEXT)


@pytest.fixture
def bombs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of an input position that holds BOMB is NaN; log-probs and losses stay finite."""
    make = Trainer.__init__

    def spoil(module: torch.nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if output.requires_grad:
            bad = (inputs[0] == BOMB)[..., None]
            output.register_hook(lambda grad: torch.where(bad, torch.nan, grad))

    def armed(trainer: Trainer, roles: Roles, config: TrainerConfig, hooks: tuple[object, ...] = ()) -> None:
        make(trainer, roles, config, hooks)  # type: ignore[arg-type]
        roles.policy.model.hf.get_input_embeddings().register_forward_hook(spoil)

    monkeypatch.setattr(Trainer, "__init__", armed)


@pytest.fixture(autouse=True)
def no_calls() -> Iterator[None]:
    gradient_hooks.CALLS.clear()
    yield
    gradient_hooks.CALLS.clear()


def train(config: Path, folder: Path, *overrides: str) -> int:
    return run_command(["train", str(config), f'observe.run_dir="{folder}"', *overrides])


def holds_bomb(rollout: Rollout) -> bool:
    """In what the model reads: the last token is never an input."""
    (turn,) = rollout.turns
    return BOMB in [*turn.prompt_ids_L, *turn.generation.token_ids_C][:-1]


def bad_samples(folder: Path) -> set[tuple[int, int]]:
    return {
        (group.id, index)
        for file in sorted((folder / "rollouts").glob("step-*.parquet"))
        for group in read_rollouts(file)
        for index, rollout in enumerate(group.rollouts)
        if holds_bomb(rollout)
    }


def books_balance(folder: Path) -> None:
    """Every draw and every rollout has one fate."""
    with LedgerView.read(folder / "ledger.sqlite") as ledger:
        balance = ledger.balance()
    assert balance.unaccounted == 0 and balance.in_flight == 0
    rollouts = [
        (group.id, index)
        for file in sorted((folder / "rollouts").glob("step-*.parquet"))
        for group in read_rollouts(file)
        for index in range(len(group.rollouts))
    ]
    assert query(folder, "SELECT draw, rollout FROM samples ORDER BY draw, rollout") == sorted(rollouts)
    owed = query(folder, "SELECT count(*) FROM samples WHERE (fate = 'trained') = (reason != '')")
    assert owed == [(0,)]


@pytest.mark.parametrize("compute", ["fp32", "fp16"])
def test_exactly_the_samples_behind_it_are_dropped(config: Path, tmp_path: Path, bombs: None, compute: str) -> None:
    folder = tmp_path / "run"
    options = (f'precision.compute="{compute}"', "precision.init_scale=64.0", "train.on_overflow='retry'")
    assert train(config, folder, 'train.on_nonfinite="drop_samples"', *options) == 0
    bad = bad_samples(folder)
    assert 0 < len(bad) < 20
    dropped = query(folder, "SELECT draw, rollout, reason FROM samples WHERE fate = 'dropped'")
    assert {row[:2] for row in dropped} == bad
    assert {row[2] for row in dropped} == {"nonfinite_grad: its gradient is not finite"}
    last = query(folder, "SELECT step, max(attempt), verdict, num_samples FROM steps GROUP BY step")
    assert [row[2] for row in last] == ["applied"] * 4
    partly = query(folder, "SELECT DISTINCT draw FROM prompts WHERE fate = 'partly_trained'")
    assert {row[0] for row in partly} <= {draw for draw, _ in bad}
    assert sum(row[3] for row in last) == 4 * 12 - len(bad)
    books_balance(folder)


def test_skipping_goes_on(config: Path, tmp_path: Path, bombs: None) -> None:
    folder = tmp_path / "run"
    assert train(config, folder) == 0
    verdicts = query(folder, "SELECT verdict, reason, nonfinite_grad, detail FROM steps ORDER BY step")
    assert len(verdicts) == 4 and ("skipped", "nonfinite_grad", 1, "gradient") in verdicts
    books_balance(folder)


def test_halting_ends_at_once_and_keeps_what_was_trained(
    config: Path, tmp_path: Path, bombs: None, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert train(config, folder, 'train.on_nonfinite="halt"') == 1
    said = capsys.readouterr().err.strip().splitlines()
    rows = query(folder, "SELECT step, verdict, reason FROM steps ORDER BY step")
    halted = rows[-1][0]
    assert rows[-1] == (halted, "halted", "nonfinite_grad")
    assert said[-1] == f"error: step {halted}: nonfinite_grad: gradient"
    report = (folder / "logs" / f"halt-step-{halted:06d}.txt").read_text(encoding="utf8")
    assert report.startswith(f"step {halted}, attempt 0 halted: nonfinite_grad\ngradient\n")
    assert "drop_samples" in report
    assert (folder / "checkpoints" / f"step-{halted:06d}").is_dir()
    events = query(folder, "SELECT kind, detail FROM events WHERE kind IN ('halted', 'ended')")
    assert [kind for kind, _ in events] == ["halted", "ended"] and all("nonfinite_grad" in what for _, what in events)
    books_balance(folder)


@pytest.mark.parametrize("policy", ["skip", "drop_samples", "halt"])
def test_weights_ruined_by_an_update_halt_whatever_is_configured(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], policy: str
) -> None:
    """Nobody gets them: no rollout, no checkpoint, no later step."""
    folder, apply = tmp_path / "run", Trainer._apply
    sampled = []

    def ruin(trainer: Trainer, *arguments: float) -> None:
        apply(trainer, *arguments)
        if trainer.updates == 2:
            trainer.masters.tensors[3].data[0] = torch.inf

    def watch(engine: InProcessEngine, version: int) -> None:
        sampled.append(version)
        advance(engine, version)

    advance = InProcessEngine.advance
    monkeypatch.setattr(Trainer, "_apply", ruin)
    monkeypatch.setattr(InProcessEngine, "advance", watch)
    assert train(config, folder, f'train.on_nonfinite="{policy}"') == 1
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("error: step 2: nonfinite_param: weights not finite: hf.model.layers.0.")
    rows = query(folder, "SELECT step, attempt, verdict, reason FROM steps ORDER BY step, attempt")
    assert rows == [(1, 0, "applied", "ok"), (2, 0, "applied", "ok"), (2, 1, "halted", "nonfinite_param")]
    assert sampled == [0, 1]
    assert not list((folder / "checkpoints").glob("step-*"))
    books_balance(folder)


def test_weights_ruined_between_steps_halt(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sampler is the first to meet them; the verdict is about the weights all the same."""
    folder, record = tmp_path / "run", InProcessEngine.advance

    def ruin(engine: InProcessEngine, version: int) -> None:
        record(engine, version)
        if version == 2:
            next(iter(engine.model.parameters())).data.fill_(torch.nan)

    monkeypatch.setattr(InProcessEngine, "advance", ruin)
    assert train(config, folder) == 1
    assert "step 3: nonfinite_param" in capsys.readouterr().err.strip().splitlines()[-1]
    assert query(folder, "SELECT verdict, reason FROM steps ORDER BY step")[-1] == ("halted", "nonfinite_param")
    reasons = query(folder, "SELECT reason FROM prompts WHERE drawn_at_step = 3")
    assert len(reasons) == 3 and all("the policy's logits are not finite" in reason for (reason,) in reasons)
    books_balance(folder)


def test_a_model_that_is_ruined_from_the_start_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from safetensors.torch import load_file, save_file

    config = save_run(tmp_path)
    weights = tmp_path / "model" / "model.safetensors"
    tensors = load_file(weights)
    tensors["model.layers.1.mlp.up_proj.weight"][3, 3] = torch.nan
    save_file(tensors, weights, metadata={"format": "pt"})
    assert train(config, tmp_path / "run") == 2
    assert "1 weights hold inf or NaN in float32: model.layers.1.mlp.up_proj.weight" in capsys.readouterr().err


def test_hooks_of_the_run_file(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    hooks = 'train.gradient_hooks=["gradient_hooks.refuse_second"]'
    assert train(config, folder, hooks) == 0
    rows = query(folder, "SELECT verdict, reason, detail FROM steps ORDER BY step")
    assert [row[:2] for row in rows] == [("applied", "ok"), ("skipped", "hook"), *[("applied", "ok")] * 2]
    assert rows[1][2] == "gradient_hooks.refuse_second: not the second"
    assert all("hf.model.norm.weight" in names for names in gradient_hooks.CALLS)
    assert "skipped: hook (gradient_hooks.refuse_second: not the second)" in capsys.readouterr().err
    books_balance(folder)


def test_a_hook_s_halt_is_resumed(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    assert train(config, folder, 'train.gradient_hooks=["gradient_hooks.halt_second"]') == 1
    assert capsys.readouterr().err.strip().splitlines()[-1] == (
        "error: step 2: user_policy: gradient_hooks.halt_second: enough"
    )
    assert run_command(["train", str(config), f'observe.run_dir="{folder}"', "--resume"]) == 0
    rows = query(folder, "SELECT step, verdict FROM steps ORDER BY step")
    assert rows == [(1, "applied"), (2, "halted"), (3, "applied"), (4, "applied")]
    books_balance(folder)


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        ("gradient_hooks.wach", "did you mean 'watch'"),
        ("gradient_hooks.asynchronous", "is async"),
        ("gradient_hooks.with_two", "cannot be called as f(gradients)"),
    ],
)
def test_a_hook_that_cannot_serve_is_refused_at_start(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], hook: str, words: str
) -> None:
    assert train(config, tmp_path / "run", f'train.gradient_hooks=["{hook}"]') == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_the_letters_hold_a_bomb() -> None:
    assert len(LETTERS) == BOMB
