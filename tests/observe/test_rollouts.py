"""Groups read back bit for bit, and the file's columns are for people."""

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.observe.rollouts import SCHEMA, read_rollouts, write_rollouts
from surefoot.types.errors import SurefootError
from surefoot.types.rollout import Generation, Group, Message, Prompt, Rollout, Stop, Turn


def bits(value: Any) -> Any:
    """A form in which equal means equal bit for bit, types included; NaN equals NaN of the same bits."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if is_dataclass(value):
        return type(value).__name__, [bits(getattr(value, f.name)) for f in fields(value)]
    if isinstance(value, dict):
        return dict, [(bits(key), bits(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [bits(item) for item in value]
    return type(value), value.hex() if isinstance(value, float) else value


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def turn(prompt: int, completion: int, seed: int, *, stop: Stop = "eos", replies: tuple[Message, ...] = ()) -> Turn:
    rng = np.random.default_rng(seed)
    logprobs = rng.normal(size=completion).astype(np.float32)
    logprobs[: completion // 2] = np.array([0x7FC00001], np.uint32).view(np.float32)  # a NaN with a payload
    return Turn(
        prompt_ids_L=rng.integers(0, 2**31 - 1, prompt).astype(np.int32),
        generation=Generation(
            token_ids_C=rng.integers(0, 2**31 - 1, completion).astype(np.int32),
            logprobs_C=logprobs,
            versions_C=rng.integers(0, 5, completion).astype(np.int32),
            stop=stop,
        ),
        replies=replies,
        reward=float(rng.normal()),
    )


def rollout(turns: tuple[Turn, ...], reward: float = 0.5, invalid: str = "") -> Rollout:
    return Rollout(
        turns=turns,
        stop="length",
        response="42 – ‼\n\u2028x",
        seed=2**64 - 1,
        reward=reward,
        reward_parts={"b": 1.0, "a": -0.0},
        answers={"b": "42 \u2013\n"},
        invalid=invalid,
    )


PROMPT = Prompt(
    "p/1", "maths", (Message("system", "Be brief."), Message("user", "2+2?\n")), {"label": 4, "metadata": {}}
)
ODD = Prompt("", "", (), {"label": None, "metadata": {"t": (1, 2), "n": {3: [1.5]}}})


def groups() -> list[Group]:
    several = (turn(3, 4, 1, replies=(Message("tool", "ok"), Message("user", "go"))), turn(9, 0, 2, stop="length"))
    return [
        Group(7, PROMPT, (rollout(several), rollout((turn(1, 1, 3),), float("nan"), "reward: no label"))),
        Group(3, ODD, (rollout(()), rollout((turn(0, 5, 4),), float("inf")))),
    ]


def test_groups_read_back_bit_for_bit(tmp_path: Path) -> None:
    path = tmp_path / "step-000001.parquet"
    write_rollouts(path, groups(), {(7, 0): 1.5})
    assert bits(read_rollouts(path)) == bits(groups())


def test_no_groups(tmp_path: Path) -> None:
    write_rollouts(tmp_path / "a.parquet", [], {})
    assert read_rollouts(tmp_path / "a.parquet") == []


def test_arrays_can_be_written_to_after_reading(tmp_path: Path) -> None:
    write_rollouts(tmp_path / "a.parquet", groups(), {})
    read_rollouts(tmp_path / "a.parquet")[0].rollouts[0].turns[0].prompt_ids_L[0] = 1


@settings(deadline=None, max_examples=25)
@given(
    shapes=st.lists(
        st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=3), min_size=1, max_size=3),
        max_size=3,
    ),
    rewards=st.floats(width=64),
    text=st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)
def test_any_shape(
    tmp_path_factory: pytest.TempPathFactory, shapes: list[list[list[tuple[int, int]]]], rewards: float, text: str
) -> None:
    made = [
        Group(
            number,
            Prompt(text, text, (Message(text, text),), {text: text}),
            tuple(rollout(tuple(turn(p, c, p + c) for p, c in turns), rewards, text) for turns in members),
        )
        for number, members in enumerate(shapes)
    ]
    path = tmp_path_factory.mktemp("rollouts") / "a.parquet"
    write_rollouts(path, made, {})
    assert bits(read_rollouts(path)) == bits(made)


def test_columns_are_for_people(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_rollouts(path, groups(), {(7, 0): 1.5, (3, 1): float("nan")})
    first, second, _, fourth = pq.read_table(path).to_pylist()
    assert first["prompt"] == "system: Be brief.\nuser: 2+2?\n"
    assert (first["reward"], first["advantage"], first["stop"], first["invalid"]) == (0.5, 1.5, "length", "")
    assert dict(first["reward_parts"]) == {"b": 1.0, "a": -0.0}
    assert dict(first["answers"]) == {"b": "42 \u2013\n"}
    assert (second["advantage"], second["invalid"]) == (None, "reward: no label")
    assert fourth["advantage"] != fourth["advantage"]  # nan is kept apart from "none"
    assert pq.read_table(path).schema.names[:10] == SCHEMA.names[:10]


@pytest.mark.parametrize(
    ("made", "advantages", "error", "why"),
    [
        (groups(), {(7, 2): 1.0}, ValueError, "rollouts that are not there"),
        ([Group(1, PROMPT, ())], {}, ValueError, "groups without rollouts"),
        (groups() + groups(), {}, ValueError, "share an id"),
        ([Group(1, Prompt("", "", (), {"label": {1}}), (rollout(()),))], {}, TypeError, "not plain data"),
        (
            [Group(1, PROMPT, (rollout((Turn(np.arange(3), turn(1, 1, 1).generation, (), 0.0),)),))],
            {},
            TypeError,
            "prompt_ids: expected int32, got int64",
        ),
    ],
)
def test_what_would_not_read_back_is_refused(
    tmp_path: Path, made: list[Group], advantages: dict[tuple[int, int], float], error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        write_rollouts(tmp_path / "a.parquet", made, advantages)
    assert list(tmp_path.iterdir()) == []


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_rollouts(path, groups(), {})
    pq.write_table(pq.read_table(path).drop_columns(["seed"]), tmp_path / "b.parquet")
    with pytest.raises(SurefootError, match="its columns differ"):
        read_rollouts(tmp_path / "b.parquet")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(SurefootError, match="cannot be read as rollouts"):
        read_rollouts(path)
    with pytest.raises(SurefootError, match="cannot be read as rollouts"):
        read_rollouts(tmp_path / "none.parquet")
