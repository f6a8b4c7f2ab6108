"""The ledger keeps what it was told through kills and resumes, and its digest repeats exactly where the run does."""

import math
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from surefoot.observe.ledger import Ledger, set_journal_mode
from surefoot.observe.ledger_view import Balance
from surefoot.observe.rows import SAMPLES, STEPS, PromptFate, SampleRow, StepRow
from surefoot.types.errors import SurefootError, UsageError
from surefoot.types.rollout import Draw, Message, Prompt

STEP = StepRow(
    step=1,
    attempt=0,
    mini_batch=0,
    started_at=100.0,
    verdict="applied",
    reason="ok",
    detail="",
    policy_version=0,
    loss=0.1,
    grad_norm=1.5,
    loss_scale=1.0,
    next_loss_scale=1.0,
    lr=1e-6,
    num_tokens=10,
    num_samples=2,
    num_prompts=1,
    min_version=0,
    max_version=0,
    nonfinite_inputs=0,
    nonfinite_logprobs=0,
    nonfinite_losses=0,
    nonfinite_grad=False,
    mismatch_mean=0.0,
    mismatch_p99=0.0,
    mismatch_max=0.0,
    reward_mean=0.5,
    reward_std=0.5,
    old_source="sampler",
    bundle="",
    seconds=1.0,
    spans={"train": 0.5},
)
SAMPLE = SampleRow(
    draw=0,
    rollout=0,
    part=0,
    step=1,
    fate="trained",
    reason="",
    updates=1,
    num_tokens=5,
    min_version=0,
    max_version=0,
    reward=1.0,
    stop="eos",
)


def draws(*numbers: int) -> list[Draw]:
    return [Draw(n, 0, n, Prompt(f"p{n}", "", (Message("user", "x"),), {})) for n in numbers]


def fate(draw: int, step: int, kind: Any = "trained", reason: str = "") -> PromptFate:
    return PromptFate(draw, kind, reason, step)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "ledger.sqlite") as opened:
        yield opened


def play(ledger: Ledger, steps: range) -> None:
    """Steps of two prompts each, one trained, one dropped."""
    for step in steps:
        first, second = 2 * step - 2, 2 * step - 1
        ledger.record_draws(step, draws(first, second))
        ledger.commit_step(
            [replace(STEP, step=step, loss=0.1 * step)],
            [fate(first, step), fate(second, step, "dropped", "zero variance")],
            [replace(SAMPLE, draw=first, step=step), replace(SAMPLE, draw=first, rollout=1, step=step)],
        )


def test_columns_are_those_of_the_interface(ledger: Ledger) -> None:
    assert ledger.query("SELECT * FROM steps")[0] == [
        *("step", "attempt", "mini_batch", "started_at", "verdict", "reason", "detail", "policy_version", "loss"),
        *("grad_norm", "loss_scale"),
        *("next_loss_scale", "lr", "num_tokens", "num_samples", "num_prompts", "min_version", "max_version"),
        *("nonfinite_inputs", "nonfinite_logprobs", "nonfinite_losses", "nonfinite_grad"),
        *("mismatch_mean", "mismatch_p99", "mismatch_max", "reward_mean", "reward_std", "old_source", "bundle"),
        *("seconds", "spans", "superseded"),
    ]
    assert ledger.query("SELECT * FROM prompts")[0] == [
        *("draw", "epoch", "row", "prompt_id", "drawn_at_step", "fate", "reason", "step", "superseded"),
    ]
    assert set(STEPS.columns) == set(StepRow.__dataclass_fields__)
    assert set(SAMPLES.columns) == set(SampleRow.__dataclass_fields__)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.1, 5e-324, 1.7976931348623157e308, 3.0])
def test_floats_round_trip(ledger: Ledger, value: float) -> None:
    row = replace(STEP, loss=value, grad_norm=value, spans={"a": 0.25})
    ledger.commit_step([row], [], [])
    (back,) = ledger.steps()
    assert back.loss.hex() == value.hex()
    assert back.grad_norm.hex() == value.hex()
    assert replace(back, loss=0.0, grad_norm=0.0) == replace(row, loss=0.0, grad_norm=0.0)


def test_nan_and_null_are_told_apart_by_sql(ledger: Ledger) -> None:
    ledger.commit_step([replace(STEP, loss=math.nan, grad_norm=math.inf)], [], [])
    assert ledger.query("SELECT loss, loss IS NULL, grad_norm > 1e300 FROM steps")[1] == [("nan", 0, 1)]


def test_numpy_numbers_are_numbers(ledger: Ledger) -> None:
    row: Any = replace(STEP, step=np.int64(3), loss=np.float32(0.5), num_tokens=np.int32(7))
    ledger.commit_step([row], [], [])
    assert ledger.query("SELECT step, typeof(step), loss, num_tokens FROM steps")[1] == [(3, "integer", 0.5, 7)]


@pytest.mark.parametrize("change", [{"step": 1.5}, {"verdict": 3}, {"loss": "x"}, {"loss": None}])
def test_a_value_of_the_wrong_type_is_refused(ledger: Ledger, change: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        ledger.commit_step([replace(STEP, **change)], [], [])
    assert ledger.steps() == []


def test_balance(ledger: Ledger) -> None:
    ledger.record_draws(1, draws(0, 1, 2, 3, 4))
    assert ledger.balance() == Balance(5, 0, 0, {}, 5)
    ledger.commit_step(
        [STEP],
        [fate(0, 1), fate(1, 1, "partly_trained", "1 invalid"), fate(2, 1, "dropped", "a"), fate(3, 1, "dropped", "a")],
        [],
    )
    assert ledger.balance() == Balance(5, 1, 1, {"a": 2}, 1)
    assert ledger.balance().unaccounted == 0


def test_same_prompt_drawn_twice(ledger: Ledger) -> None:
    again = [replace(draw, number=draw.number + 1) for draw in draws(0)]
    ledger.record_draws(1, draws(0) + again)
    ledger.commit_step([STEP], [fate(1, 1)], [])
    assert ledger.balance() == Balance(2, 1, 0, {}, 1)


@pytest.mark.parametrize(
    ("fates", "why"),
    [
        ([fate(0, 1), fate(0, 1)], "draw 0 cannot become trained: it is not in flight"),
        ([fate(7, 1)], "draw 7 cannot become trained"),
        ([fate(0, 1, "dropped")], "draw 0 is dropped without a reason"),
        ([fate(0, 1, "partly_trained")], "draw 0 is partly_trained without a reason"),
    ],
)
def test_a_fate_that_does_not_add_up_changes_nothing(ledger: Ledger, fates: list[PromptFate], why: str) -> None:
    ledger.record_draws(1, draws(0))
    before = ledger.digest()
    with pytest.raises(SurefootError, match=why):
        ledger.commit_step([STEP], fates, [SAMPLE])
    assert ledger.digest() == before
    assert ledger.balance() == Balance(1, 0, 0, {}, 1)


def test_a_draw_or_attempt_twice_is_refused(ledger: Ledger) -> None:
    ledger.record_draws(1, draws(0))
    with pytest.raises(SurefootError, match="UNIQUE"):
        ledger.record_draws(1, draws(1, 0))
    assert ledger.balance().drawn == 1
    ledger.commit_step([STEP], [], [])
    with pytest.raises(SurefootError, match="UNIQUE"):
        ledger.commit_step([STEP], [], [])


def test_digest_leaves_out_clocks_and_events(ledger: Ledger, tmp_path: Path) -> None:
    play(ledger, range(1, 4))
    with Ledger.open(tmp_path / "other.sqlite") as other:
        for step in range(1, 4):
            first, second = 2 * step - 2, 2 * step - 1
            other.record_event("checkpoint", "noise")
            other.record_draws(step, draws(first, second))
            other.commit_step(
                [replace(STEP, step=step, loss=0.1 * step, started_at=5e8, seconds=77.0, spans={"rollout": 9.0})],
                [fate(second, step, "dropped", "zero variance"), fate(first, step)],
                [replace(SAMPLE, draw=first, rollout=1, step=step), replace(SAMPLE, draw=first, step=step)],
            )
        assert other.digest() == ledger.digest()


@pytest.mark.parametrize(
    "change",
    [
        {"loss": math.nextafter(0.1, 1)},
        {"loss": math.nan},
        {"grad_norm": math.inf},
        {"verdict": "skipped"},
        {"attempt": 1},
        {"old_source": "trainer"},
        {"bundle": "bundles/x"},
        {"reason": "o"},
    ],
)
def test_digest_sees_a_difference_of_one_bit(tmp_path: Path, change: dict[str, Any]) -> None:
    digests = []
    for number, row in enumerate((STEP, replace(STEP, **change))):
        with Ledger.open(tmp_path / f"{number}.sqlite") as ledger:
            ledger.commit_step([row], [], [])
            digests.append(ledger.digest())
    assert digests[0] != digests[1]


def test_digest_tells_neighbouring_texts_apart(tmp_path: Path) -> None:
    digests = set()
    for number, (fates, reason) in enumerate([("ab", "c"), ("a", "bc")]):
        with Ledger.open(tmp_path / f"{number}.sqlite") as ledger:
            ledger.record_draws(1, draws(0))
            ledger.commit_step([replace(STEP, bundle=fates)], [fate(0, 1, "dropped", reason)], [])
            digests.add(ledger.digest())
    assert len(digests) == 2


@pytest.mark.parametrize("checkpoint", [0, 1, 2, 3, 4])
def test_a_resumed_run_ends_with_the_digest_of_one_that_was_not_killed(tmp_path: Path, checkpoint: int) -> None:
    with Ledger.open(tmp_path / "whole.sqlite") as whole:
        play(whole, range(1, 5))
        expected = whole.digest(), whole.balance()
    path = tmp_path / "killed.sqlite"
    with Ledger.open(path) as killed:
        play(killed, range(1, 4))
        killed.record_draws(4, draws(6, 7))  # killed inside step 4
    with Ledger.open(path) as resumed:
        marked = resumed.supersede(checkpoint)
        lost = 3 - min(checkpoint, 3)
        assert marked == 5 * lost + (2 if checkpoint < 4 else 0)  # a step, two prompts, two samples each
        if checkpoint < 4:
            play(resumed, range(checkpoint + 1, 5))
            assert (resumed.digest(), resumed.balance()) == expected
        assert resumed.balance().unaccounted == 0


def test_resumes_are_counted_and_nothing_is_deleted(ledger: Ledger) -> None:
    play(ledger, range(1, 3))
    assert ledger.supersede(1) == 5
    play(ledger, range(2, 3))
    assert ledger.supersede(1) == 5
    play(ledger, range(2, 3))
    assert ledger.supersede(2) == 0
    rows = ledger.query("SELECT step, superseded FROM steps ORDER BY step, superseded")[1]
    assert rows == [(1, 0), (2, 0), (2, 1), (2, 2)]
    assert ledger.query("SELECT count(*) FROM events WHERE kind = 'superseded'")[1] == [(3,)]
    assert ledger.balance() == Balance(4, 2, 0, {"zero variance": 2}, 0)


def test_a_prompt_in_flight_at_the_checkpoint_is_in_flight_again(ledger: Ledger) -> None:
    ledger.record_draws(1, draws(0, 1, 2))  # 2 stays in the buffer
    ledger.commit_step([STEP], [fate(0, 1), fate(1, 1)], [])
    ledger.record_draws(2, draws(3))
    ledger.commit_step([replace(STEP, step=2)], [fate(2, 2), fate(3, 2)], [])
    assert ledger.supersede(1) == 3  # the step, draw 2's fate, draw 3
    assert ledger.balance() == Balance(3, 2, 0, {}, 1)
    assert ledger.query("SELECT draw, fate, step FROM prompts WHERE superseded = 1 ORDER BY draw")[1] == [
        (2, "trained", 2),
        (3, "trained", 2),
    ]
    ledger.record_draws(2, draws(3))
    ledger.commit_step([replace(STEP, step=2)], [fate(2, 2), fate(3, 2)], [])
    assert ledger.balance() == Balance(4, 4, 0, {}, 0)


def test_draws_ahead_of_the_checkpoint_are_drawn_again(ledger: Ledger) -> None:
    ledger.record_draws(1, draws(0, 1))
    ledger.commit_step([STEP], [fate(0, 1)], [])
    ledger.record_draws(1, draws(2))  # while step 1 trains, after its checkpoint noted that 2 comes next
    assert ledger.supersede(1, first_draw=2) == 1
    ledger.record_draws(2, draws(2))
    assert ledger.balance() == Balance(3, 1, 0, {}, 2)


def test_only_one_writer(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from surefoot.observe.ledger import Ledger\n"
        "Ledger.open(Path(sys.argv[1]))\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "ledger.sqlite")]
    with Ledger.open(tmp_path / "ledger.sqlite"):
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "UsageError" in refused.stderr
        assert "another process is writing this run" in refused.stderr
    subprocess.run(command, check=True)


def test_read_while_written(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        play(ledger, range(1, 2))
        with Ledger.read(tmp_path / "ledger.sqlite") as view:
            assert len(view.steps()) == 1
            play(ledger, range(2, 3))
            assert len(view.steps()) == 2
            assert view.digest() == ledger.digest()


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with Ledger.open(path) as ledger:
        play(ledger, range(1, 2))
        for sql in (
            "DELETE FROM steps",
            "UPDATE steps SET loss = 0",
            f"ATTACH '{tmp_path / 'other.db'}' AS other",
            "PRAGMA journal_mode = DELETE",
            "SELECT 1; SELECT 2",
            "SELEKT",
            "SELECT nothing FROM steps",
        ):
            for view in (ledger, Ledger.read(path)):
                with pytest.raises(UsageError, match="the query failed"):
                    view.query(sql)
        play(ledger, range(2, 3))  # the writer still writes
    assert not (tmp_path / "other.db").exists()


def test_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no ledger"):
        Ledger.read(tmp_path / "ledger.sqlite")
    assert not (tmp_path / "ledger.sqlite").exists()


def test_not_a_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(SurefootError, match="cannot be read as a ledger"):
        Ledger.read(path)
    with pytest.raises(SurefootError, match="cannot be opened as a ledger"):
        Ledger.open(path)
    other = sqlite3.connect(tmp_path / "other.sqlite")
    other.execute("CREATE TABLE a (b)")
    other.close()
    with pytest.raises(SurefootError, match="ledger format 0"):
        Ledger.read(tmp_path / "other.sqlite")
    with pytest.raises(SurefootError, match="ledger format 0"):
        Ledger.open(tmp_path / "other.sqlite")


def test_rollback_journal_where_wal_cannot_be_set(tmp_path: Path) -> None:
    """unix-dotfile, like a network file system, has no shared memory."""
    local = sqlite3.connect(tmp_path / "a.sqlite", isolation_level=None)
    assert set_journal_mode(local) == "wal"
    remote = sqlite3.connect(f"file:{tmp_path / 'b.sqlite'}?vfs=unix-dotfile", uri=True, isolation_level=None)
    assert set_journal_mode(remote) == "delete"
    local.close()
    remote.close()


CHILD = """
import sys
from pathlib import Path
sys.path.insert(0, {folder!r})
from test_ledger import Ledger, play
ledger = Ledger.open(Path({path!r}))
for step in range(1, 100000):
    play(ledger, range(step, step + 1))
    print(step, flush=True)
"""


@pytest.mark.parametrize("seed", [0, 1])
def test_kill_loses_nothing_that_was_committed(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "ledger.sqlite"
    code = CHILD.format(folder=str(Path(__file__).parent), path=str(path))
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    stop = random.Random(seed).randint(2, 25)
    said = 0
    for line in child.stdout:
        said = int(line)
        if said >= stop:
            child.send_signal(signal.SIGKILL)
            break
    said = max([said, *(int(line) for line in child.stdout if line.endswith("\n"))])
    child.wait()
    with Ledger.read(path) as view:
        steps = view.steps()
        assert len(steps) >= said
        assert [row.step for row in steps] == list(range(1, len(steps) + 1))
        balance = view.balance()
        assert balance.trained == len(steps)
        assert balance.in_flight in (0, 2)
    with Ledger.open(path) as ledger:  # the dead writer's lock is gone
        ledger.supersede(len(steps) - 1)
        play(ledger, range(len(steps), len(steps) + 1))
        assert ledger.balance().in_flight == 0
