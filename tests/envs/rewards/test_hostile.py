"""Responses made to break or to stall a reward: each is scored in linear time, and none raises."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from surefoot.envs.rewards import dapo, deepscaler, f1, gpqa, ifbench
from surefoot.envs.rewards.constraints import kinds, wording
from surefoot.envs.rewards.constraints.table import CONSTRAINTS

N = 200_000
PIECES = {
    "letter": "a",
    "digits": "1",
    "blank": " ",
    "line": "\n",
    "blank lines": "\n ",
    "stars": "*",
    "bullets": "* a ",
    "dots": ".",
    "sentences": "A b. ",
    "brackets": "[",
    "open and letter": "[a",
    "angles": "<",
    "nested": "([{",
    "quotes": "\"'",
    "commas": "1,",
    "objects": '{"a":',
    "fences": "```json\n",
    "boxes": "\\boxed{",
    "boxed": "\\boxed{A}",
    "backslashes": "\\",
    "answers": "Answer: ",
    "answer is": "the answer to the question is option ",
    "choices": "A) x\n",
    "articles": "A is the ",
    "thinking": "<think>",
    "thought": "</think>",
    "han": "猫",
    "emoji": "😀",
    "combining": "e\u0301",
    "control": "\x00\x1b",
    "surrogate": "\ud800",
}
REWARDS: dict[str, Callable[[str], Any]] = {
    "dapo": lambda response: dapo.score("", response, 7, {}),
    "dapo box": lambda response: dapo.score("", response, 7, {}, strict_box=True),
    "deepscaler": lambda response: deepscaler.score("", response, 7, {}, thinking="optional"),
    "gpqa": lambda response: gpqa.score("", response, "Oslo", {"choices": ["Rome", "Oslo"]}),
    "f1": lambda response: f1.score("", response, "cat", {}),
}
SAMPLE = {
    kinds.text: "some three words",
    kinds.texts: ["a", "some three words"],
    kinds.count: 3,
    kinds.place: 2,
    kinds.character: "a",
    kinds.relation: "at least",
    wording.language: "ja",
}
STALLING = ("line", "blank lines", "stars", "dots", "open and letter", "objects")  # where backtracking would square


def long(piece: str) -> str:
    return (piece * (N // len(piece) + 1))[:N]


def seconds(function: Callable[[], object]) -> float:
    """Of this process: what else runs on the machine does not count."""
    began = time.process_time()
    function()
    return time.process_time() - began


@pytest.mark.parametrize("reward", REWARDS)
@pytest.mark.parametrize("piece", PIECES)
def test_in_time(reward: str, piece: str) -> None:
    for response in (long(PIECES[piece]), "x" + long(PIECES[piece]) + "x"):
        assert seconds(lambda response=response: REWARDS[reward](response)) < 3


@pytest.mark.parametrize("piece", STALLING)
def test_constraints_in_time(piece: str) -> None:
    response = long(PIECES[piece])[: N // 4] + "x"
    for name, constraint in CONSTRAINTS.items():
        arguments = constraint.read({key: SAMPLE[read] for key, read in constraint.takes.items()})
        spent = seconds(lambda c=constraint, a=arguments: c.holds(response, **a))
        assert spent < 0.5, name  # what is quadratic takes a minute


@pytest.mark.parametrize("name", ["length_constraints:number_sentences", "words:last_first", "keywords:existence"])
def test_slowest_constraints_at_full_length(name: str) -> None:
    constraint = CONSTRAINTS[name]
    metadata = {
        "instruction_id_list": [name],
        "kwargs": [{key: SAMPLE[read] for key, read in constraint.takes.items()}],
    }
    for piece in ("line", "sentences", "letter"):
        assert seconds(lambda piece=piece: ifbench.score("", long(PIECES[piece]) + "x", None, metadata)) < 1
