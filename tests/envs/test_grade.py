"""Faults and numbers are tested through the rubric (test_rubric.py); here is what only a grader shows."""

import asyncio
import inspect
from typing import Any

import pytest

from surefoot.envs.grade import Grader, Mark, Question, plain, to_number
from surefoot.types.errors import RewardError

QUESTION = Question("q", "the answer is 4", "4", {})


def grader(function: Any, answer: Any = None, timeout: float = 60.0, **params: Any) -> Grader:
    return Grader("part", function, answer, params, timeout)


def grade(made: Grader) -> Mark:
    return asyncio.run(made.grade(QUESTION))


def test_the_answer_is_found_with_the_reward_s_options() -> None:
    made = grader(lambda *_, last: 1, lambda response, *, last: response[-last:], last=3)
    assert grade(made) == Mark(1.0, "s 4")
    assert grade(grader(lambda *_: 1, lambda _: None)) == Mark(1.0, None)


def test_a_fault_of_the_extraction_is_the_reward_s() -> None:
    with pytest.raises(RewardError, match=r"^part raised ValueError: no$"):
        grade(grader(lambda *_: 1, lambda _: (_ for _ in ()).throw(ValueError("no"))))


def test_a_long_or_odd_answer_can_be_stored() -> None:
    answer = grade(grader(lambda *_: 1, lambda _: "\ud800" + "x" * 100_000)).answer
    assert answer is not None
    assert answer.startswith("?xxx")
    assert len(answer.encode()) == 10_000


def test_only_its_own_limit_is_called_late() -> None:
    async def refused(*_: Any) -> float:
        raise TimeoutError("the server's")

    async def forever(*_: Any) -> float:
        await asyncio.Event().wait()
        return 1.0

    with pytest.raises(RewardError, match=r"^part raised TimeoutError: the server's$"):
        grade(grader(refused))
    with pytest.raises(RewardError, match=r"^part gave no reward within 0\.05 s$"):
        grade(grader(forever, timeout=0.05))


def test_what_a_returned_value_shows_is_bounded() -> None:
    with pytest.raises(RewardError) as caught:
        to_number("x" * 10**6, "part")
    assert len(str(caught.value)) < 600
    assert plain("abc", 2) == "ab"


def test_a_plain_call_is_not_awaited_and_an_async_one_is_not_run() -> None:
    async def later(*_: Any) -> float:
        return 0.5

    assert grader(lambda *_: 3).call(QUESTION) == 3
    waiting = grader(later).call(QUESTION)
    assert inspect.isawaitable(waiting)
    assert asyncio.run(grader(later).wait(waiting)) == 0.5
