"""SIGTERM ends a run at a whole step with a checkpoint; what is resumed is the run that was never stopped."""

import asyncio
import os
import signal
import threading
from pathlib import Path

import pytest

from runs import digests, job, query, run_all
from support import save_run
from surefoot.loop.stop import Stop

STEPS = "loop.steps=5"
QUIET = "checkpoint.every=0"  # only the signal and the end write one


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def unbroken(config: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    assert run_all([job(config, folder, STEPS, QUIET, sets(config))]) == [0]
    return digests(folder)


def sets(config: Path) -> str:
    return f'eval.sets=[{{name="held", path="{config.parent / "prompts.jsonl"}", label_key="", samples=2}}]'


@pytest.mark.parametrize(
    ("point", "number"),
    [("term_sampling", 15), ("term_training", 3), ("term_training", 5)],  # the last: then comes an evaluation
)
def test_a_resumed_run_is_the_unbroken_one(
    config: Path, tmp_path: Path, unbroken: tuple[str, str], point: str, number: int
) -> None:
    folder = tmp_path / "run"
    first = job(config, folder, STEPS, QUIET, sets(config), kill=(point, number))
    assert run_all([first]) == [0]
    ((stopped,),) = query(folder, "SELECT detail FROM events WHERE kind = 'stopped'")
    step, name = stopped.removeprefix("step ").split(": ")
    assert name == "SIGTERM" and int(step) > 0
    assert [path.name for path in (folder / "checkpoints").iterdir()] == [f"step-{int(step):06d}"]
    assert run_all([job(config, folder, STEPS, QUIET, sets(config), resume=True)]) == [0]
    assert digests(folder) == unbroken


def test_a_signal_while_a_step_trains_keeps_that_step(config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert run_all([job(config, folder, STEPS, QUIET, sets(config), kill=("term_training", 3))]) == [0]
    assert query(folder, "SELECT max(step) FROM steps") == [(3,)]


def test_before_the_first_step_nothing_is_saved(config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert run_all([job(config, folder, STEPS, QUIET, kill=("term_sampling", 1))]) == [0]
    assert list((folder / "checkpoints").iterdir()) == []
    assert query(folder, "SELECT detail FROM events WHERE kind = 'stopped'") == [("step 0: SIGTERM",)]


def test_the_second_signal_ends_the_run_at_once(config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    status = run_all([job(config, folder, STEPS, "checkpoint.every=2", kill=("term_twice", 15))])
    assert status == [-signal.SIGTERM]


def test_work_that_ends_first_is_returned_and_a_signal_cancels_the_rest() -> None:
    cancelled = []

    async def quick() -> int:
        return 7

    async def endless() -> int:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return 8

    async def main() -> tuple[int | None, int | None, str]:
        stop = Stop()
        with stop.listening():
            first = await stop.unless(quick())
            asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGTERM)
            second = await stop.unless(endless())
        return first, second, stop.reason

    assert asyncio.run(main()) == (7, None, "SIGTERM")
    assert cancelled == [True]


def test_an_error_of_the_work_is_raised() -> None:
    async def broken() -> None:
        raise ValueError("as it is")

    with pytest.raises(ValueError, match="as it is"):
        asyncio.run(Stop().unless(broken()))


def test_off_the_main_thread_signals_stay_as_they_are() -> None:
    async def main() -> None:
        with Stop().listening():
            await asyncio.sleep(0)

    failures: list[BaseException] = []

    def target() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:
            failures.append(error)

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=target)
    thread.start()
    thread.join(10)
    assert not failures and signal.getsignal(signal.SIGTERM) is before
