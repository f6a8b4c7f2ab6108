import asyncio
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from surefoot.config.schema import RewardConfig
from surefoot.envs import Rubric, WorkerPool
from surefoot.envs.grade import Grader
from surefoot.envs.rubric import Part, mark_inline
from surefoot.types.errors import ConfigError, DataError, HookError, RewardError
from surefoot.types.rollout import Message, Prompt, Score

PROMPT = Prompt(
    "p1",
    "",
    (Message("system", "S"), Message("user", "first"), Message("assistant", "a"), Message("user", "last")),
    {"label": "4", "metadata": {"k": 1}},
)


def part(name: str, function: Callable[..., Any], weight: float = 1.0, timeout: float = 60.0, **params: Any) -> Part:
    return Part(name, weight, params, partial(mark_inline, Grader(name, function, None, params, timeout)), None)


def constant(value: Any) -> Rubric:
    return Rubric((part("constant", lambda *_: value),))


def score(rubric: Rubric, response: str = "4", prompt: Prompt = PROMPT) -> tuple[float, dict[str, float]]:
    got = asyncio.run(rubric.score(prompt, response))
    return got.reward, dict(got.parts)


HOOKS = """
import asyncio

def longer(prompt, response, label, metadata, *, than=3):
    return len(response) > than

def label_in_place(prompt, response, label, metadata):
    label.append(1)
    metadata["k"] += 1
    return len(label) + metadata["k"]

async def meets(prompt, response, label, metadata, *, own, other):
    open(own, "w").close()
    while not other.exists():
        await asyncio.sleep(0.01)
    return 1

def hangs(prompt, response, label, metadata):
    while True:
        pass
"""


@pytest.fixture
def hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the module `rubric_hooks`, which is the current one."""
    (tmp_path / "rubric_hooks.py").write_text(HOOKS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "rubric_hooks", raising=False)
    return tmp_path


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(2) as pool:
        yield pool


@pytest.mark.usefixtures("hooks")
def test_weighted_sum_and_unweighted_parts(pool: WorkerPool) -> None:
    rubric = Rubric.from_config(
        [
            RewardConfig(name="exact_match", weight=2.0, params={"extract": "last_number"}),
            RewardConfig(function="rubric_hooks.longer", weight=-0.5, params={"than": 5}, part="long"),
        ],
        timeout=60.0,
        pool=pool,
    )
    assert asyncio.run(rubric.score(PROMPT, "it is 4,000")) == Score(
        -0.5, {"exact_match": 0.0, "long": 1.0}, {"exact_match": "4000"}
    )
    assert asyncio.run(rubric.score(PROMPT, "4")) == Score(2.0, {"exact_match": 1.0, "long": 0.0}, {"exact_match": "4"})
    assert asyncio.run(rubric.score(PROMPT, "four")).answers == {}  # it extracts, and found nothing


def test_parts_are_called_by_part_name_or_function() -> None:
    configs = [RewardConfig(name="exact_match"), RewardConfig(name="exact_match", part="again")]
    assert [part.name for part in Rubric.from_config(configs, timeout=1.0).parts] == ["exact_match", "again"]


def test_the_whole_response_is_no_extracted_answer() -> None:
    rubric = Rubric.from_config([RewardConfig(name="exact_match")], timeout=1.0)
    assert asyncio.run(rubric.score(PROMPT, "4")) == Score(1.0, {"exact_match": 1.0}, {})


def test_a_built_in_of_the_workers_extracts_there(pool: WorkerPool) -> None:
    """chain_sum asks for an int; the metadata is what the generator wrote."""
    metadata = {"task": "chain_sum", "entry": {"answer": "7", "metadata": {}}}
    prompt = Prompt("p", "", (Message("user", "3 + 4"),), {"label": "7", "metadata": metadata})
    config = RewardConfig(name="reasoning_gym", params={"extract": "last_number"}, timeout=20.0)
    rubric = Rubric.from_config([config], timeout=0.001, pool=pool)
    assert asyncio.run(rubric.score(prompt, "It is 7.")) == Score(1.0, {"reasoning_gym": 1.0}, {"reasoning_gym": "7"})


def test_all_parts_of_an_answer_run_at_once(hooks: Path, pool: WorkerPool) -> None:
    """Each waits until the other has begun."""
    a, b = hooks / "a", hooks / "b"
    rubric = Rubric.from_config(
        [
            RewardConfig(function="rubric_hooks.meets", part="a", params={"own": a, "other": b}),
            RewardConfig(function="rubric_hooks.meets", part="b", params={"own": b, "other": a}),
        ],
        timeout=10.0,
        pool=pool,
    )
    assert score(rubric) == (2.0, {"a": 1.0, "b": 1.0})


@pytest.mark.usefixtures("hooks")
def test_the_limit_is_the_reward_s_own_or_the_rubric_s(pool: WorkerPool) -> None:
    for own, said in ((0.0, "0.2"), (0.1, "0.1")):
        rubric = Rubric.from_config([RewardConfig(function="rubric_hooks.hangs", timeout=own)], timeout=0.2, pool=pool)
        with pytest.raises(RewardError, match=f"^rubric_hooks.hangs gave no reward within {said} s$"):
            score(rubric)


@pytest.mark.usefixtures("hooks")
def test_changes_made_in_a_worker_stay_there(pool: WorkerPool) -> None:
    prompt = Prompt("p", "", PROMPT.messages, {"label": [], "metadata": {"k": 1}})
    rubric = Rubric.from_config([RewardConfig(function="rubric_hooks.label_in_place")], timeout=10.0, pool=pool)
    assert [score(rubric, prompt=prompt)[0] for _ in range(2)] == [3.0, 3.0]


def test_of_several_faults_the_first_part_s_is_told() -> None:
    async def late(*_: Any) -> float:
        await asyncio.sleep(0.05)
        raise ValueError("slow")

    def fails(*_: Any) -> float:
        raise ValueError("quick")

    with pytest.raises(RewardError, match=r"^first raised ValueError: slow$"):
        score(Rubric((part("first", late), part("second", fails))))


def test_what_a_function_is_given() -> None:
    seen: list[Any] = []

    async def spy(*arguments: Any, **options: Any) -> float:
        seen.append((arguments, options))
        await asyncio.sleep(0)
        return 0.5

    assert score(Rubric((part("spy", spy, deep=True),)), "r") == (0.5, {"spy": 0.5})
    assert seen == [(("last", "r", "4", {"k": 1}), {"deep": True})]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1.0),
        (True, 1.0),
        (False, 0.0),
        (0.25, 0.25),
        (np.float32(0.5), 0.5),
        (np.int64(-2), -2.0),
        (np.bool_(True), 1.0),
        (np.array(0.5), 0.5),
        (torch.tensor(0.5), 0.5),
        (torch.tensor(True), 1.0),
        (Decimal("0.5"), 0.5),
        (Fraction(1, 4), 0.25),
    ],
)
def test_scalars_of_any_library(value: object, expected: float) -> None:
    total, parts = score(constant(value))
    assert (total, parts) == (expected, {"constant": expected})
    assert type(total) is type(parts["constant"]) is float


@pytest.mark.parametrize(
    "value",
    [
        None,
        "1.0",
        b"1",
        np.str_("1"),
        [1.0],
        {"score": 1.0},
        (1.0,),
        1j,
        np.complex64(1),
        torch.tensor([1.0]),
        torch.tensor([1.0, 2.0]),
        np.array([1.0]),
        np.datetime64("2020-01-01"),
        float,
        float("nan"),
        float("inf"),
        -np.float32("inf"),
        torch.tensor(float("nan")),
        Decimal("nan"),
        Decimal("sNaN"),
        10**400,
    ],
)
def test_what_is_no_finite_number(value: object) -> None:
    with pytest.raises(RewardError, match=r"^constant returned "):
        score(constant(value))


def test_an_awaited_value_is_checked_too() -> None:
    async def nothing(*_: Any) -> None:
        return None

    with pytest.raises(RewardError, match="late returned None"):
        score(Rubric((part("late", nothing),)))


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_exception_names_its_part(asynchronous: bool) -> None:
    def fails(*_: Any) -> float:
        raise KeyError("answer")

    async def fails_later(*_: Any) -> float:
        await asyncio.sleep(0)
        raise KeyError("answer")

    rubric = Rubric((part("good", lambda *_: 1.0), part("bad", fails_later if asynchronous else fails)))
    with pytest.raises(RewardError, match=r"^bad raised KeyError: 'answer'$") as caught:
        score(rubric)
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_parts_own_reward_error_keeps_its_words() -> None:
    rubric = Rubric.from_config([RewardConfig(name="exact_match")], timeout=60.0)
    with pytest.raises(RewardError, match=r"^exact_match: the label is null"):
        score(rubric, prompt=Prompt("p", "", PROMPT.messages, {"label": None, "metadata": {}}))


@pytest.mark.parametrize("error", [asyncio.CancelledError, KeyboardInterrupt])
def test_what_is_no_fault_of_the_reward_passes_through(error: type[BaseException]) -> None:
    def stop(*_: Any) -> float:
        raise error

    with pytest.raises(error):
        score(Rubric((part("stop", stop),)))


def test_an_exit_is_the_reward_s_own_fault() -> None:
    """Answer checkers built on argparse exit; the run must not end with them, and with status 0 at that."""

    def leave(*_: Any) -> float:
        raise SystemExit(0)

    with pytest.raises(RewardError, match="leave raised SystemExit"):
        score(Rubric((part("leave", leave),)))


def test_an_async_reward_has_a_deadline() -> None:
    async def forever(*_: Any) -> float:
        await asyncio.Event().wait()
        return 1.0

    with pytest.raises(RewardError, match=r"slow gave no reward within 0\.05 s"):
        score(Rubric((part("slow", forever, timeout=0.05),)))


def test_a_reward_s_changes_to_its_arguments_stay_its_own() -> None:
    def spoil(prompt: str, response: str, label: Any, metadata: dict[str, Any]) -> float:
        metadata["seen"] = metadata["seen"] + 1
        label.append(1)
        return float(metadata["seen"])

    prompt = Prompt("p", "", PROMPT.messages, {"label": [], "metadata": {"seen": 0}})
    rubric = Rubric((part("spoil", spoil),))
    assert [score(rubric, prompt=prompt)[0] for _ in range(3)] == [1.0, 1.0, 1.0]
    assert prompt.payload == {"label": [], "metadata": {"seen": 0}}


@pytest.mark.parametrize("text", ["bad \ud800", "x" * 10_000])
def test_an_exception_s_text_can_be_stored(text: str) -> None:
    def fail(*_: Any) -> float:
        raise ValueError(text)

    with pytest.raises(RewardError) as caught:
        score(Rubric((part("fail", fail),)))
    assert len(str(caught.value).encode("utf8")) < 600


def test_full_marks_follow_the_weights() -> None:
    """1 and 0.5 are worth 1.5; a penalty of weight -1 takes nothing from the best response."""
    configs = [RewardConfig(name="exact_match"), RewardConfig(name="reasoning_gym", weight=0.5)]
    assert Rubric.from_config(configs, timeout=1.0).full_marks == 1.5
    penalty = part("penalty", lambda *_: 0.0, weight=-1.0)
    assert Rubric((*Rubric.from_config(configs, timeout=1.0).parts, penalty)).full_marks == 1.5


def test_a_waiting_reward_can_be_cancelled() -> None:
    async def forever(*_: Any) -> float:
        await asyncio.Event().wait()
        return 1.0

    async def run() -> None:
        await asyncio.wait_for(Rubric((part("forever", forever),)).score(PROMPT, "4"), timeout=0.05)

    with pytest.raises(TimeoutError):
        asyncio.run(run())


def test_a_sum_that_overflows() -> None:
    with pytest.raises(RewardError, match="is inf"):
        score(Rubric((part("a", lambda *_: 1e308, weight=10.0),)))


def test_no_user_message() -> None:
    with pytest.raises(RewardError, match="p has no user message"):
        score(constant(1.0), prompt=Prompt("p", "", (Message("system", "S"),), PROMPT.payload))


@pytest.mark.parametrize(
    ("configs", "error", "reason"),
    [
        ([], ConfigError, "env.rewards is empty"),
        ([{}], ConfigError, "env.rewards.0: set one of name and function, not neither"),
        ([{"name": "exact_match", "function": "a.b"}], ConfigError, "not both"),
        ([{"name": "exact_match"}] * 2, ConfigError, "env.rewards.1: there are two rewards named 'exact_match'"),
        ([{"name": "exact_match", "weight": float("inf")}], ConfigError, "env.rewards.0.weight = inf"),
        ([{"name": "exact_mach"}], HookError, "did you mean 'exact_match'"),
        ([{"name": "exact_match", "params": {"extrct": "none"}}], HookError, "did you mean 'extract'"),
        ([{"name": "exact_match", "params": {"label": 1}}], HookError, "multiple values for argument 'label'"),
        ([{"name": "exact_match", "params": {"extract": "lastnumber"}}], HookError, "did you mean 'last_number'"),
        ([{"name": "reasoning_gym", "params": {"strip": True}}], HookError, "reasoning_gym has no option 'strip'"),
        ([{"function": "rubric_hooks.longer", "params": {"then": 1}}], HookError, "did you mean 'than'"),
        ([{"function": "rubric_hooks.longr"}], HookError, "did you mean 'longer'"),
    ],
)
@pytest.mark.usefixtures("hooks")
def test_configs_that_cannot_be_right(configs: list[dict[str, Any]], error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        Rubric.from_config([RewardConfig(**config) for config in configs], timeout=60.0)


def test_a_section_of_its_own_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^eval\.sets\.1\.rewards\.0: set one of"):
        Rubric.from_config([RewardConfig()], timeout=1.0, section="eval.sets.1.rewards")


def test_check_names_the_row_beside_the_id() -> None:
    rubric = Rubric.from_config([RewardConfig(name="exact_match", part="exact")], timeout=60.0)
    payload = {"label": None, "metadata": {}, "origin": "prompts.jsonl:12"}
    with pytest.raises(DataError, match=r"^prompt q7 \(prompts\.jsonl:12\): exact: the label is null"):
        rubric.check([Prompt("q7", "", PROMPT.messages, payload)])


def test_check_finds_all_prompts_that_can_never_be_scored() -> None:
    rubric = Rubric.from_config([RewardConfig(name="exact_match", params={"extract": "last_number"})], timeout=60.0)
    labels = ["4", None, "cat", *[None] * 30]
    prompts = [
        Prompt(f"p{number}", "", PROMPT.messages, {"label": label, "metadata": {}})
        for number, label in enumerate(labels)
    ]
    rubric.check(prompts[:1])
    with pytest.raises(DataError) as caught:
        rubric.check(prompts)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("prompt p1: exact_match: the label is null")
    assert lines[1].startswith("prompt p2: exact_match: the label 'cat' is not one number")
    assert len(lines) == 21
    assert lines[-1] == "and 12 more prompts, 32 of 33 in all"
