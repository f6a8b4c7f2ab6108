import asyncio
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from surefoot.envs import Rubric, run_group, run_rollout
from surefoot.envs.grade import Grader
from surefoot.envs.rubric import Part, mark_inline
from surefoot.types.errors import EngineError
from surefoot.types.rollout import Draw, Generation, Group, IntArray, Message, Prompt, Request, Rollout, Sampling, Stop

PROMPT = Prompt("p", "", (Message("user", "q"),), {"label": None, "metadata": {}})
PROMPT_IDS = np.array([1, 2], dtype=np.int32)
DRAW = Draw(number=41, epoch=2, row=3, prompt=PROMPT)


class Letters:
    """Ids are code points; 0 is a special token that decoding leaves out."""

    def encode(self, messages: Sequence[Message]) -> IntArray:
        return np.array([ord(letter) for letter in messages[-1].content], dtype=np.int32)

    def decode(self, token_ids: Sequence[int] | np.ndarray) -> str:
        return "".join(chr(token_id) for token_id in token_ids if token_id)


def generation(text: str, stop: Stop = "eos") -> Generation:
    ids = np.array([ord(letter) for letter in text], dtype=np.int32)
    return Generation(ids, -np.ones(len(ids), dtype=np.float32), np.zeros(len(ids), dtype=np.int32), stop)


def rubric(function: Any) -> Rubric:
    return Rubric((Part("part", 2.0, {}, partial(mark_inline, Grader("part", function, None, {}, 60.0)), None),))


def says(text: str, stop: Stop = "eos", stops: tuple[str, ...] = ()) -> tuple[Rollout, list[str], list[Request]]:
    """The rollout of a policy that says `text`, what the reward saw, and the requests."""
    seen: list[str] = []
    requests: list[Request] = []

    async def generate(request: Request) -> Generation:
        requests.append(request)
        return generation(text, stop)

    def reward(prompt: str, response: str, *_: Any) -> float:
        seen.append(response)
        return 0.5

    rollout = asyncio.run(
        run_rollout(
            PROMPT,
            PROMPT_IDS,
            generate=generate,
            codec=Letters(),
            rubric=rubric(reward),
            sampling=Sampling(0.7, 9, stops),
            seed=11,
        )
    )
    return rollout, seen, requests


def test_a_rollout_is_complete() -> None:
    rollout, seen, (request,) = says("four\x00")
    assert request.prompt_ids_L is PROMPT_IDS
    assert (request.seed, request.sampling) == (11, Sampling(0.7, 9, ()))
    assert seen == ["four"]
    assert (rollout.response, rollout.stop, rollout.seed) == ("four", "eos", 11)
    assert (rollout.reward, rollout.reward_parts, rollout.answers, rollout.invalid) == (1.0, {"part": 0.5}, {}, "")
    (turn,) = rollout.turns
    assert turn.prompt_ids_L is PROMPT_IDS
    assert turn.generation.token_ids_C.tolist() == [102, 111, 117, 114, 0]
    assert (turn.replies, turn.reward) == ((), 1.0)


@pytest.mark.parametrize(
    ("text", "stop", "stops", "scored"),
    [
        ("4 END", "stop_string", ("END",), "4 "),
        ("4 END", "stop_string", ("zzz", "END", "D"), "4 "),
        ("4;\n", "stop_string", ("\n", ";"), "4"),
        ("4", "stop_string", ("<special>",), "4"),
        ("a END b", "eos", ("END",), "a END b"),
        ("a END b", "length", ("END",), "a END b"),
    ],
)
def test_the_reward_sees_the_text_before_the_stop_string(
    text: str, stop: Stop, stops: tuple[str, ...], scored: str
) -> None:
    rollout, seen, _ = says(text, stop, stops)
    assert seen == [scored]
    assert rollout.response == text
    assert rollout.stop == stop


def group(generate: Any, reward: Any, seeds: Sequence[int]) -> Group:
    return asyncio.run(
        run_group(
            DRAW,
            PROMPT_IDS,
            seeds,
            generate=generate,
            codec=Letters(),
            rubric=rubric(reward),
            sampling=Sampling(1.0, 9, ()),
        )
    )


def test_a_reward_error_makes_only_its_own_rollout_invalid() -> None:
    async def generate(request: Request) -> Generation:
        return generation(str(request.seed))

    def reward(prompt: str, response: str, *_: Any) -> float:
        return math.nan if response == "2" else 1.0

    got = group(generate, reward, [1, 2, 3])
    assert [rollout.invalid for rollout in got.rollouts] == ["", "reward: part returned nan", ""]
    broken = got.rollouts[1]
    assert math.isnan(broken.reward)
    assert math.isnan(broken.turns[0].reward)
    assert (broken.reward_parts, broken.answers) == ({}, {})
    assert broken.response == "2"
    assert [rollout.reward for rollout in got.rollouts if not rollout.invalid] == [2.0, 2.0]


def test_a_group_is_submitted_in_order_and_runs_at_once() -> None:
    submitted: list[int] = []
    everyone = asyncio.Barrier(4)

    async def generate(request: Request) -> Generation:
        submitted.append(request.seed)
        await everyone.wait()  # passes only when all four are in flight
        await asyncio.sleep(0.01 * request.seed)
        return generation(str(request.seed))

    got = group(generate, lambda *_: 1.0, [3, 0, 2, 1])
    assert submitted == [3, 0, 2, 1]
    assert [rollout.seed for rollout in got.rollouts] == [3, 0, 2, 1]
    assert [rollout.response for rollout in got.rollouts] == ["3", "0", "2", "1"]
    assert (got.id, got.prompt) == (41, PROMPT)


def test_an_engine_error_is_raised_and_leaves_nothing_running() -> None:
    ended: list[int] = []

    async def generate(request: Request) -> Generation:
        if request.seed == 1:
            raise EngineError("engine B is dead")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            ended.append(request.seed)
        raise AssertionError

    async def run() -> set[asyncio.Task[Any]]:
        with pytest.raises(EngineError, match="engine B is dead"):
            await run_group(
                DRAW,
                PROMPT_IDS,
                [0, 1, 2],
                generate=generate,
                codec=Letters(),
                rubric=rubric(lambda *_: 1.0),
                sampling=Sampling(1.0, 9, ()),
            )
        return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]

    assert asyncio.run(run()) == set()
    assert ended == [0, 2]


def test_a_cancelled_group_leaves_nothing_running() -> None:
    ended: list[int] = []

    async def generate(request: Request) -> Generation:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(request.seed)
        raise AssertionError

    async def run() -> None:
        await asyncio.wait_for(
            run_group(
                DRAW,
                PROMPT_IDS,
                [0, 1],
                generate=generate,
                codec=Letters(),
                rubric=rubric(lambda *_: 1.0),
                sampling=Sampling(1.0, 9, ()),
            ),
            timeout=0.05,
        )

    with pytest.raises(TimeoutError):
        asyncio.run(run())
    assert ended == [0, 1]
