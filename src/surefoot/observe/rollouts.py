"""Rollouts as parquet, one row each: columns for people, and every array bit for bit, so that groups read back equal.

Letters: G rollouts of a group, C tokens of a completion, L tokens of a prompt.
"""

import io
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from surefoot.observe.durable import write_atomic
from surefoot.observe.plain import dump_plain, load_plain
from surefoot.types.errors import SurefootError
from surefoot.types.rollout import Generation, Group, Message, Prompt, Rollout, Turn

MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
INTS, FLOATS = pa.list_(pa.list_(pa.int32())), pa.list_(pa.list_(pa.float32()))  # turn -> token
SCHEMA = pa.schema(
    [
        ("group", pa.int64()),
        ("rollout", pa.int32()),
        ("prompt_id", pa.string()),
        ("prompt", pa.string()),  # for people; `messages` is what counts
        ("response", pa.string()),
        ("reward", pa.float64()),
        ("reward_parts", pa.map_(pa.string(), pa.float64())),
        ("answers", pa.map_(pa.string(), pa.string())),  # part -> what its extraction accepted
        ("advantage", pa.float64()),  # null where the rollout got none
        ("stop", pa.string()),
        ("invalid", pa.string()),
        ("env", pa.string()),
        ("messages", MESSAGES),
        ("payload", pa.string()),
        ("seed", pa.uint64()),
        ("turn_stops", pa.list_(pa.string())),
        ("turn_rewards", pa.list_(pa.float64())),
        ("turn_replies", pa.list_(MESSAGES)),
        ("prompt_ids", INTS),
        ("token_ids", INTS),
        ("logprobs", FLOATS),
        ("versions", INTS),
    ]
)


TOKENS = {"prompt_ids": np.int32, "token_ids": np.int32, "logprobs": np.float32, "versions": np.int32}


def write_rollouts(path: Path, groups: Sequence[Group], advantages: Mapping[tuple[int, int], float]) -> None:
    """Writes the file whole or not at all. `advantages`: (group id, index of the rollout) -> value.

    ValueError for an advantage without a rollout, a group without rollouts, an id twice; TypeError for a payload that
    is not plain data or an array that is not of its record's type.
    """
    _check(groups, advantages)
    places = [(group, index) for group in groups for index in range(len(group.rollouts))]
    rows = [_row(group, index, advantages.get((group.id, index))) for group, index in places]
    arrays = _token_arrays([group.rollouts[index] for group, index in places])
    for field in SCHEMA:
        if field.name not in TOKENS:
            arrays[field.name] = pa.array([row[field.name] for row in rows], field.type)
    buffer = io.BytesIO()
    pq.write_table(pa.table(arrays).select(SCHEMA.names).cast(SCHEMA), buffer, compression="zstd")
    write_atomic(path, buffer.getvalue())


def read_rollouts(path: Path) -> list[Group]:
    """The groups of a file, equal to those written. SurefootError where the file is not one of ours."""
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise SurefootError(f"{path}: cannot be read as rollouts: {error}") from error
    if not table.schema.equals(SCHEMA):
        raise SurefootError(f"{path}: not a file of rollouts, its columns differ")
    tokens = {name: _split(table[name]) for name in TOKENS}
    rows = table.drop_columns(list(TOKENS)).to_pylist()
    rollouts: dict[int, list[Rollout]] = {}
    for index, row in enumerate(rows):
        turns = {name: turns_of[index] for name, turns_of in tokens.items()}
        rollouts.setdefault(row["group"], []).append(_rollout(row, turns))
    prompts = {row["group"]: row for row in rows}
    return [Group(number, _prompt(prompts[number]), tuple(members)) for number, members in rollouts.items()]


def count_groups(path: Path) -> int:
    """How many groups a file holds, from one of its columns. SurefootError where the file is not one of ours."""
    try:
        numbers = pq.read_table(path, columns=["group"])["group"]
    except (OSError, pa.ArrowException) as error:
        raise SurefootError(f"{path}: cannot be read as rollouts: {error}") from error
    return len(numbers.unique())


def _check(groups: Sequence[Group], advantages: Mapping[tuple[int, int], float]) -> None:
    known = {(group.id, index) for group in groups for index in range(len(group.rollouts))}
    stray = sorted(advantages.keys() - known)
    if stray:
        raise ValueError(f"advantages of rollouts that are not there: {stray[:5]}")
    empty = [group.id for group in groups if not group.rollouts]
    if empty:
        raise ValueError(f"groups without rollouts: {empty[:5]}")
    if len({group.id for group in groups}) != len(groups):
        raise ValueError("two groups share an id")


def _row(group: Group, index: int, advantage: float | None) -> dict[str, Any]:
    rollout, prompt = group.rollouts[index], group.prompt
    return {
        "group": group.id,
        "rollout": index,
        "prompt_id": prompt.id,
        "prompt": readable(prompt.messages),
        "response": rollout.response,
        "reward": float(rollout.reward),
        "reward_parts": list(rollout.reward_parts.items()),
        "answers": list(rollout.answers.items()),
        "advantage": None if advantage is None else float(advantage),
        "stop": rollout.stop,
        "invalid": rollout.invalid,
        "env": prompt.env,
        "messages": [_plain_message(message) for message in prompt.messages],
        "payload": dump_plain(dict(prompt.payload)),
        "seed": rollout.seed,
        "turn_stops": [turn.generation.stop for turn in rollout.turns],
        "turn_rewards": [float(turn.reward) for turn in rollout.turns],
        "turn_replies": [[_plain_message(message) for message in turn.replies] for turn in rollout.turns],
    }


def readable(messages: Sequence[Message]) -> str:
    """A lone user message is its text; others are told apart by role.

    >>> readable([Message("system", "Be brief."), Message("user", "2+2?")])
    'system: Be brief.\\nuser: 2+2?'
    """
    if len(messages) == 1 and messages[0].role == "user":
        return messages[0].content
    return "\n".join(f"{message.role}: {message.content}" for message in messages)


def _plain_message(message: Message) -> dict[str, str]:
    return {"role": message.role, "content": message.content}


def _token_arrays(rollouts: Sequence[Rollout]) -> dict[str, pa.Array]:
    turns = [rollout.turns for rollout in rollouts]
    return {
        "prompt_ids": _nest([[t.prompt_ids_L for t in row] for row in turns], "prompt_ids"),
        "token_ids": _nest([[t.generation.token_ids_C for t in row] for row in turns], "token_ids"),
        "logprobs": _nest([[t.generation.logprobs_C for t in row] for row in turns], "logprobs"),
        "versions": _nest([[t.generation.versions_C for t in row] for row in turns], "versions"),
    }


def _nest(rows: list[list[NDArray[Any]]], name: str) -> pa.Array:
    """Row -> turn -> tokens as one column, without a Python object a token."""
    arrays = [array for row in rows for array in row]
    wrong = {str(array.dtype) for array in arrays} - {np.dtype(TOKENS[name]).name}
    if wrong:
        raise TypeError(f"{name}: expected {np.dtype(TOKENS[name]).name}, got {', '.join(sorted(wrong))}")
    values = np.concatenate([np.empty(0, TOKENS[name]), *arrays])
    turns = pa.ListArray.from_arrays(_offsets([len(array) for array in arrays]), pa.array(values))
    return pa.ListArray.from_arrays(_offsets([len(row) for row in rows]), turns)


def _offsets(lengths: list[int]) -> pa.Array:
    """Where each of consecutive lists begins, and the last one's end.

    >>> _offsets([2, 0, 3]).to_pylist()
    [0, 2, 2, 5]
    """
    return pa.array(np.cumsum([0, *lengths]), pa.int32())


def _split(column: pa.ChunkedArray) -> list[list[NDArray[Any]]]:
    """The opposite of `_nest`."""
    result = []
    for rows in column.chunks:
        outer, inner = rows.offsets.to_numpy(), rows.values.offsets.to_numpy()
        tokens = rows.values.values.to_numpy()
        turns = [tokens[start:end].copy() for start, end in itertools.pairwise(inner)]
        result += [turns[start:end] for start, end in itertools.pairwise(outer)]
    return result


def _rollout(row: dict[str, Any], tokens: Mapping[str, list[NDArray[Any]]]) -> Rollout:
    turns = tuple(
        Turn(
            prompt_ids_L=tokens["prompt_ids"][index],
            generation=Generation(
                token_ids_C=tokens["token_ids"][index],
                logprobs_C=tokens["logprobs"][index],
                versions_C=tokens["versions"][index],
                stop=stop,
            ),
            replies=_messages(row["turn_replies"][index]),
            reward=row["turn_rewards"][index],
        )
        for index, stop in enumerate(row["turn_stops"])
    )
    return Rollout(
        turns=turns,
        stop=row["stop"],
        response=row["response"],
        seed=row["seed"],
        reward=row["reward"],
        reward_parts=dict(row["reward_parts"]),
        answers=dict(row["answers"]),
        invalid=row["invalid"],
    )


def _prompt(row: dict[str, Any]) -> Prompt:
    return Prompt(row["prompt_id"], row["env"], _messages(row["messages"]), load_plain(row["payload"]))


def _messages(rows: list[dict[str, str]]) -> tuple[Message, ...]:
    return tuple(Message(row["role"], row["content"]) for row in rows)
