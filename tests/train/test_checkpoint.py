"""Checkpoints: what comes back, what is kept, what is refused, and one error for all ranks."""

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from surefoot.train.checkpoint import load_loop_state, load_tensors, save_checkpoint
from surefoot.train.find import find_checkpoint
from surefoot.train.manifest import read_manifest
from surefoot.types.errors import CheckpointError

FILES = ["loop.json", "tensors/.metadata", "tensors/__0_0.distcp"]


def state(value: float) -> dict[str, Any]:
    return {
        "policy": {"w": torch.full((4, 3), value), "half": torch.full((3,), value, dtype=torch.bfloat16)},
        "optimizer": {"w": {"step": torch.tensor(value), "moments": [torch.full((2,), value)], "count": int(value)}},
    }


def save(root: Path, step: int, *, value: float | None = None, keep_last: int = 1, **loop_state: Any) -> Path:
    return save_checkpoint(
        root,
        step,
        tensors=state(float(step) if value is None else value),
        loop_state=loop_state,
        weights_digest=f"digest-{step}",
        keep_last=keep_last,
    )


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def value_of(path: Path) -> float:
    tensors = state(-1.0)
    load_tensors(path, tensors)
    return float(tensors["policy"]["w"][0, 0])


def test_everything_comes_back_in_place(tmp_path: Path) -> None:
    loop_state = {"cursor": 3, "big": 2**200, "list": [1, None, "ü\u2028"], "deep": {"nan": math.nan, "third": 1 / 3}}
    path = save(tmp_path / "checkpoints", 10, value=1 / 3, **loop_state)
    assert path == tmp_path / "checkpoints" / "step-000010"
    tensors, wanted = state(0.0), state(1 / 3)
    weight, moments = tensors["policy"]["w"], tensors["optimizer"]["w"]["moments"][0]
    tensors["optimizer"]["w"]["count"] = 5
    load_tensors(path, tensors)
    assert tensors["policy"]["w"] is weight and tensors["optimizer"]["w"]["moments"][0] is moments
    for name in ("w", "half"):
        assert torch.equal(tensors["policy"][name], wanted["policy"][name])
    assert torch.equal(moments, wanted["optimizer"]["w"]["moments"][0])
    assert tensors["optimizer"]["w"]["count"] == 0
    back = load_loop_state(path)
    assert math.isnan(back["deep"].pop("nan")) and math.isnan(loop_state["deep"].pop("nan"))
    assert back == loop_state
    assert find_checkpoint(tmp_path / "checkpoints") == (path, [])


def test_everything_is_on_disk_before_the_rename_and_the_rename_before_a_deletion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = save(tmp_path, 1)
    events: list[tuple[str, Any]] = []
    fsync, replace = os.fsync, os.replace

    def recording_fsync(descriptor: int) -> None:
        events.append(("fsync", os.fstat(descriptor).st_ino))
        fsync(descriptor)

    def recording_replace(source: Path, target: Path) -> None:
        events.append(("replace", Path(source).name))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", recording_fsync)
    monkeypatch.setattr(os, "replace", recording_replace)
    new = save(tmp_path, 2)
    inodes = {p: p.stat().st_ino for p in [new, *new.rglob("*")]}
    renamed = events.index(("replace", f".tmp-{new.name}"))
    before, after = [inode for kind, inode in events[:renamed] if kind == "fsync"], events[renamed + 1 :]
    assert set(inodes.values()) <= set(before)
    manifest = before.index(inodes[new / "MANIFEST.json"])
    assert all(inode in before[:manifest] for path, inode in inodes.items() if path not in (new, new / "MANIFEST.json"))
    assert before[manifest + 1 :] == [inodes[new]], "the manifest last, then the folder that names it"
    assert after[0] == ("fsync", tmp_path.stat().st_ino) and ("replace", old.name) in after[1:]


def test_the_manifest_names_every_file_and_the_weights(tmp_path: Path) -> None:
    manifest = read_manifest(save(tmp_path, 2))
    assert (manifest.step, manifest.weights_digest, sorted(manifest.files)) == (2, "digest-2", FILES)
    assert all(entry.size == (tmp_path / "step-000002" / name).stat().st_size for name, entry in manifest.files.items())


def test_the_newest_are_kept_by_number(tmp_path: Path) -> None:
    for step in (1, 2, 10, 1_000_000):
        save(tmp_path, step, keep_last=2)
    assert names(tmp_path) == ["step-000010", "step-1000000"]
    assert find_checkpoint(tmp_path) == (tmp_path / "step-1000000", [])
    save(tmp_path, 1_000_001, keep_last=1)
    assert names(tmp_path) == ["step-1000001"]


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_named_at_load(tmp_path: Path, name: str) -> None:
    path = save(tmp_path, 1, pad="x" * 100)
    content = bytearray((path / name).read_bytes())
    content[len(content) // 2] ^= 1
    (path / name).write_bytes(content)
    assert find_checkpoint(tmp_path)[0] == path, "sizes are right, so that only the load can tell"
    with pytest.raises(CheckpointError, match=rf"{name}: damaged"):
        load_tensors(path, state(0.0))
    if name == "loop.json":
        with pytest.raises(CheckpointError, match=r"loop.json: damaged"):
            load_loop_state(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "unreadable"),
        ("{", "unreadable"),
        ("[]", "format 1"),
        ('{"format": 2}', "format 1"),
        ('{"format": 1}', "damaged: KeyError"),
        ('{"format": 1, "files": [], "step": 2}', "damaged"),
    ],
)
def test_a_damaged_manifest_is_passed_over_and_refused(tmp_path: Path, content: str, reason: str) -> None:
    good, bad = save(tmp_path, 1, keep_last=2), save(tmp_path, 2, keep_last=2)
    (bad / "MANIFEST.json").write_text(content)
    found, ignored = find_checkpoint(tmp_path)
    assert found == good and [path for path, _ in ignored] == [bad]
    assert "MANIFEST.json" in ignored[0][1] and reason in ignored[0][1]
    with pytest.raises(CheckpointError, match=reason):
        load_tensors(bad, state(0.0))
    with pytest.raises(CheckpointError, match=reason):
        load_loop_state(bad)


def test_a_folder_under_another_steps_name_is_passed_over(tmp_path: Path) -> None:
    good = save(tmp_path, 1)
    shutil.copytree(good, tmp_path / "step-000009")
    assert find_checkpoint(tmp_path) == (
        good,
        [(tmp_path / "step-000009", f"{tmp_path}/step-000009/MANIFEST.json: is of step 1")],
    )


def test_the_same_step_again_replaces_it(tmp_path: Path) -> None:
    save(tmp_path, 5, value=1.0)
    path = save(tmp_path, 5, value=2.0)
    assert names(tmp_path) == ["step-000005"] and value_of(path) == 2.0


def test_a_save_cut_between_its_two_renames_is_found_and_mended(tmp_path: Path) -> None:
    save(tmp_path, 4, value=1.0, keep_last=2)
    path = save(tmp_path, 5, value=2.0, keep_last=2)
    displaced = path.rename(tmp_path / "step-000005.old")
    found, ignored = find_checkpoint(tmp_path)
    assert found == displaced and ignored == [] and value_of(displaced) == 2.0
    save(tmp_path, 6, value=3.0, keep_last=2)
    assert names(tmp_path) == ["step-000005.old", "step-000006"]
    save(tmp_path, 5, value=4.0, keep_last=2)
    assert names(tmp_path) == ["step-000005", "step-000006"] and value_of(path) == 4.0


def test_a_broken_folder_of_the_same_step_gives_way(tmp_path: Path) -> None:
    save(tmp_path, 1)
    broken = save(tmp_path, 2, keep_last=2)
    (broken / "loop.json").unlink()
    assert value_of(save(tmp_path, 2, value=7.0)) == 7.0
    assert names(tmp_path) == ["step-000002"]


def test_what_is_no_checkpoint_is_left_alone(tmp_path: Path) -> None:
    for name in ("notes", ".tmp-mine", "step-x", "xstep-000001"):
        (tmp_path / name).mkdir()
    save(tmp_path, 3)
    assert names(tmp_path) == [".tmp-mine", "notes", "step-000003", "step-x", "xstep-000001"]


def test_nothing_to_find(tmp_path: Path) -> None:
    assert find_checkpoint(tmp_path / "missing") == (None, [])
    assert find_checkpoint(tmp_path) == (None, [])
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"file: cannot be listed"):
        find_checkpoint(tmp_path / "file")
    with pytest.raises(CheckpointError, match=r"cannot be prepared"):
        save(tmp_path / "file", 1)
    with pytest.raises(CheckpointError, match=r"MANIFEST.json: missing"):
        load_loop_state(tmp_path / "step-000001")


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ({"policy": {"other": torch.zeros(4, 3)}}, "policy.other"),
        ({"policy": {"w": torch.zeros(4, 4)}}, "policy.w"),
        ({"policy": {"w": torch.zeros(4, 3, dtype=torch.float16)}}, r"policy.w was saved as torch.float32 and"),
        ({"policy": {"w": torch.zeros(4, 3, dtype=torch.int32)}}, r"policy.w was saved as torch.float32 and"),
    ],
)
def test_a_key_that_does_not_fit_is_named(tmp_path: Path, target: dict[str, Any], reason: str) -> None:
    path = save(tmp_path, 1)
    with pytest.raises(CheckpointError, match=rf"step-000001: cannot be loaded: .*{reason}"):
        load_tensors(path, target)


def test_a_part_can_be_loaded(tmp_path: Path) -> None:
    tensors = {"policy": {"w": torch.zeros(4, 3)}}
    load_tensors(save(tmp_path, 3), tensors)
    assert tensors["policy"]["w"].eq(3.0).all()


@pytest.mark.parametrize(
    ("loop_state", "where"),
    [
        ({"a": {1: 2}}, r"loop_state.a: key 1"),
        ({"a": [0, (1, 2)]}, r"loop_state.a\[1\]: tuple"),
        ({"a": torch.zeros(2)}, r"loop_state.a: Tensor"),
        ({"a": b"x"}, r"loop_state.a: bytes"),
    ],
)
def test_a_loop_state_that_json_would_change_is_refused(tmp_path: Path, loop_state: dict[str, Any], where: str) -> None:
    before = save(tmp_path, 1)
    with pytest.raises(CheckpointError, match=where):
        save(tmp_path, 2, **loop_state)
    assert find_checkpoint(tmp_path)[0] == before


@pytest.mark.parametrize(("step", "keep_last"), [(-1, 1), (1, 0)])
def test_senseless_arguments_are_refused(tmp_path: Path, step: int, keep_last: int) -> None:
    with pytest.raises(ValueError, match="keep_last"):
        save(tmp_path, step, keep_last=keep_last)


def test_two_ranks_save_load_and_fail_together(tmp_path: Path) -> None:
    script = Path(__file__).with_name("checkpoint_ranks.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["statuses"] == [0, 0] and report["one_process_equal"]
    first, second = report["ranks"]
    assert first == second, "every rank must see the same"
    root = tmp_path / "two"
    assert first["saved"] == str(root / "step-000001") == first["found"]
    assert first["loaded"] == first["loaded_from_one"] == "None"
    assert first["equal"] and first["equal_from_one"]
    unfinished = f"CheckpointError {root}/.tmp-step-000002"
    assert (
        first["rank_1_cannot_write"] == f"{unfinished}: cannot be written: rank 1: OSError: [Errno 27] File too large"
    )
    assert (
        first["rank_0_cannot_finish"] == f"{unfinished}: cannot be finished: rank 0: OSError: [Errno 27] File too large"
    )
    assert first["rank_0_has_a_bad_state"].startswith(f"{unfinished}: cannot be prepared: rank 0: loop_state.tuple")
    assert "policy.w" in first["wrong_shape"] and first["wrong_shape"].startswith("CheckpointError")
    assert "tensors/__0_0.distcp: damaged" in first["damaged"]
    assert first["good_after_all"] == str(root / "step-000002")
    assert names(root) == ["step-000002"]
