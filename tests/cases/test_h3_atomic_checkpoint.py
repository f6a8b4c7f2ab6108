"""h3-atomic-checkpoint, https://github.com/verl-project/verl/pull/4873

With one checkpoint to keep, the old one went before the new one was whole, and a half-written folder was resumed
from. Its kind: a save that stops anywhere. Here it is killed before every single call that makes something last or
disappear, cut off by a file size limit at every file, and robbed of each file in turn; each in a real process.

Run as a script this file is that process: it forks a child for each save, and prints what it saw as JSON.
"""

import hashlib
import json
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from runs import run_script
from surefoot.train.checkpoint import load_loop_state, load_tensors, save_checkpoint
from surefoot.train.find import find_checkpoint
from surefoot.types.errors import CheckpointError

LASTING_CALLS = ("fsync", "replace", "rename", "unlink", "rmdir", "mkdir")  # of os


def save(root: Path, step: int, value: int, *, keep_last: int = 1, pad: int = 0, digest: str = "d") -> Path:
    return save_checkpoint(
        root,
        step,
        tensors={"policy": {"w": torch.full((8,), float(value))}, "optimizer": {"count": value}},
        loop_state={"value": value, "pad": "x" * pad},
        weights_digest=digest,
        keep_last=keep_last,
    )


def look(root: Path) -> dict[str, Any]:
    """What a resume would see, with every part of the checkpoint it picks really loaded."""
    found, ignored = find_checkpoint(root)
    seen = {"found": found.name if found else None, "ignored": {path.name: reason for path, reason in ignored}}
    if found:
        tensors = {"policy": {"w": torch.zeros(8)}, "optimizer": {"count": 0}}
        load_tensors(found, tensors)
        values = {*tensors["policy"]["w"].tolist(), tensors["optimizer"]["count"], load_loop_state(found)["value"]}
        (seen["value"],) = values  # parts of two saves would make two
    return seen


def tree_hash(folder: Path) -> str:
    hasher = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        hasher.update(f"{path.relative_to(folder)} {path.is_file()}".encode())
        hasher.update(path.read_bytes() if path.is_file() else b"")
    return hasher.hexdigest()


def die_before(number: int) -> None:
    """SIGKILL this process at its `number`th lasting call, before it takes effect."""
    calls = 0

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **keywords: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **keywords)

        return run

    for name in LASTING_CALLS:
        setattr(os, name, counted(getattr(os, name)))


def in_child(work: Callable[[], Any]) -> tuple[int, str]:
    """(exit status, the CheckpointError it printed); an error exits with 1, as an uncaught one does."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 2
        try:
            work()
            status = 0
        except CheckpointError as error:
            os.write(writer, str(error).encode())
            status = 1
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, encoding="utf8") as stream:
        message = stream.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), message


def killed_saves(base: Path, work: Path, step: int) -> Iterator[dict[str, Any]]:
    """Save `step` over a root that holds step 1, killed at the 1st, 2nd, ... call until one gets through."""
    number, status = 0, -signal.SIGKILL
    while status == -signal.SIGKILL:
        number += 1
        root = work / f"kill-{step}-{number}"
        shutil.copytree(base, root)
        before = tree_hash(root / "step-000001")
        status, _ = in_child(lambda k=number, r=root: (die_before(k), save(r, step, 2)))
        first = root / "step-000001"
        seen = {"status": status, **look(root), "step_1_untouched": first.exists() and tree_hash(first) == before}
        save(root, step, 3)
        yield seen | {"after_good_save": sorted(p.name for p in root.iterdir()), "value_after": look(root)["value"]}


def limited_saves(base: Path, work: Path) -> Iterator[dict[str, Any]]:
    """Save step 2 under every file size limit that one of its files exceeds, each file being the largest once."""
    shapes = {"tensors": {}, "loop": {"pad": 20_000}, "manifest": {"digest": "d" * 40_000}}
    for shape, options in shapes.items():
        model = save(work / f"model-{shape}", 2, 2, **options)
        sizes = {path.stat().st_size for path in model.rglob("*") if path.is_file()}
        for limit in sorted({0, *(size - 1 for size in sizes), max(sizes)}):
            root = work / f"limit-{shape}-{limit}"
            shutil.copytree(base, root)
            before = tree_hash(root / "step-000001")

            def limited(root: Path = root, limit: int = limit, options: dict[str, Any] = options) -> None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
                save(root, 2, 2, **options)

            status, message = in_child(limited)
            seen = {"shape": shape, "enough": limit == max(sizes), "status": status, "message": message, **look(root)}
            first = root / "step-000001"
            seen["step_1_untouched"] = first.exists() and tree_hash(first) == before
            save(root, 2, 3)
            yield seen | {"after_good_save": sorted(p.name for p in root.iterdir())}


def robbed_saves(base: Path, work: Path) -> Iterator[dict[str, Any]]:
    """A finished step 2 that has lost, or lost the end of, one of its files."""
    model = work / "robbed"
    shutil.copytree(base, model)
    folder = save(model, 2, 2, keep_last=2)
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        for how in ("missing", "cut"):
            root = work / f"robbed-{path.name}-{how}"
            shutil.copytree(model, root)
            victim = root / path.relative_to(model)
            if how == "missing":
                victim.unlink()
            else:
                os.truncate(victim, victim.stat().st_size - 1)
            seen = look(root) | {"victim": victim.name}
            save(root, 2, 3)
            yield seen | {"after_good_save": sorted(p.name for p in root.iterdir())}


def main(work: Path) -> None:
    base = work / "base"
    save(base, 1, 1)
    report = {
        "killed": list(killed_saves(base, work, 2)),
        "killed_again": list(killed_saves(base, work, 1)),
        "limited": list(limited_saves(base, work)),
        "robbed": list(robbed_saves(base, work)),
    }
    print(json.dumps(report))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    printed = run_script(Path(__file__), [str(tmp_path_factory.mktemp("h3"))], ranks=1, timeout=120)
    seen: dict[str, list[dict[str, Any]]] = json.loads(printed)
    return seen


def test_killed_anywhere_the_old_or_the_new_one_is_whole(report: dict[str, list[dict[str, Any]]]) -> None:
    *killed, finished = report["killed"]
    assert len(killed) > 15, "too few calls seen: the counters no longer sit where files are written"
    assert {seen["status"] for seen in killed} == {-signal.SIGKILL} and finished["status"] == 0
    stages = [seen["found"] for seen in report["killed"]]
    assert stages == sorted(stages) and set(stages) == {"step-000001", "step-000002"}
    for seen in report["killed"]:
        if seen["found"] == "step-000001":
            assert seen["value"] == 1 and seen["step_1_untouched"]
            assert set(seen["ignored"]) <= {".tmp-step-000002"}
        else:
            assert seen["value"] == 2 and seen["ignored"] == {}
        assert seen["after_good_save"] == ["step-000002"] and seen["value_after"] == 3
    unfinished = [seen["ignored"] for seen in killed if seen["found"] == "step-000001"]
    assert any(unfinished) and all("did not finish" in r for ignored in unfinished for r in ignored.values())


def test_killed_while_replacing_its_own_step_one_is_whole(report: dict[str, list[dict[str, Any]]]) -> None:
    values = [seen["value"] for seen in report["killed_again"]]
    assert values == sorted(values) and set(values) == {1, 2}
    assert {seen["found"] for seen in report["killed_again"]} == {"step-000001", "step-000001.old"}
    for seen in report["killed_again"]:
        assert seen["after_good_save"] == ["step-000001"] and seen["value_after"] == 3


def test_a_write_limit_is_an_error_and_step_1_stays(report: dict[str, list[dict[str, Any]]]) -> None:
    failed = [seen for seen in report["limited"] if not seen["enough"]]
    assert {seen["shape"] for seen in failed} == {"tensors", "loop", "manifest"}
    for seen in failed:
        assert seen["status"] == 1, seen
        assert ".tmp-step-000002" in seen["message"] and "File too large" in seen["message"]
        assert seen["found"] == "step-000001" and seen["value"] == 1 and seen["step_1_untouched"]
        assert "did not finish" in seen["ignored"][".tmp-step-000002"]
    stages = {seen["message"].split(": cannot be ")[1].split(":")[0] for seen in failed}
    assert stages == {"written", "finished"}
    for seen in report["limited"]:
        assert seen["after_good_save"] == ["step-000002"]
        assert not seen["enough"] or (seen["status"], seen["found"]) == (0, "step-000002")


def test_a_missing_or_cut_component_is_passed_over_by_name(report: dict[str, list[dict[str, Any]]]) -> None:
    assert {seen["victim"] for seen in report["robbed"]} == {"MANIFEST.json", "loop.json", ".metadata", "__0_0.distcp"}
    for seen in report["robbed"]:
        assert seen["found"] == "step-000001" and seen["value"] == 1
        assert seen["victim"] in seen["ignored"]["step-000002"]
        assert seen["after_good_save"] == ["step-000002"]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
