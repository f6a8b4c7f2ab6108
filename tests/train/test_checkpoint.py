"""Checkpoints: what comes back, what is kept, what is refused, and one error for all ranks."""

import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from surefoot.train.checkpoint import (
    find_sound_checkpoint,
    load_loop_state,
    load_tensors,
    save_checkpoint,
    saved_tensors,
)
from surefoot.train.find import find_checkpoint, locate_checkpoint
from surefoot.train.manifest import read_manifest
from surefoot.types.errors import CheckpointError, UsageError

FILES = ["loop.json", "tensors/.metadata", "tensors/__0_0.distcp"]


def state(value: float) -> dict[str, Any]:
    return {
        "policy": {"w": torch.full((4, 3), value), "half": torch.full((3,), value, dtype=torch.bfloat16)},
        "optimizer": {"w": {"step": torch.tensor(value), "moments": [torch.full((2,), value)], "count": int(value)}},
    }


def save(
    root: Path, step: int, *, value: float | None = None, keep_last: int = 1, keep_every: int = 0, **loop_state: Any
) -> Path:
    return save_checkpoint(
        root,
        step,
        tensors=state(float(step) if value is None else value),
        loop_state=loop_state,
        weights_digest=f"digest-{step}",
        keep_last=keep_last,
        keep_every=keep_every,
    )


def spoil(path: Path) -> None:
    """One bit in the middle: the size stays right."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


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


def test_multiples_of_keep_every_stay_for_good(tmp_path: Path) -> None:
    for step in range(1, 12):
        save(tmp_path, step, keep_last=2, keep_every=4)
    assert names(tmp_path) == ["step-000004", "step-000008", "step-000010", "step-000011"]
    save(tmp_path, 12, keep_last=1, keep_every=6)
    assert names(tmp_path) == ["step-000012"], "what another configuration kept goes"


@given(st.lists(st.integers(0, 9), min_size=1, max_size=7), st.integers(1, 3), st.integers(0, 4))
@example(steps=[2, 3, 4, 6, 5], keep_last=1, keep_every=2)
@settings(max_examples=25, deadline=None)
def test_kept_are_the_newest_and_the_multiples(steps: list[int], keep_last: int, keep_every: int) -> None:
    """In any order of steps, as after a resume from an older one: the one just saved always counts as kept."""
    with tempfile.TemporaryDirectory() as folder:
        root, there = Path(folder), set[int]()
        for step in steps:
            save(root, step, keep_last=keep_last, keep_every=keep_every)
            others = sorted(there - {step}, reverse=True)
            multiples = {other for other in others if keep_every and other % keep_every == 0}
            there = {step, *others[: keep_last - 1], *multiples}
            assert names(root) == [f"step-{number:06d}" for number in sorted(there)]


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_named_at_load(tmp_path: Path, name: str) -> None:
    path = save(tmp_path, 1, pad="x" * 100)
    spoil(path / name)
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


@pytest.mark.parametrize("name", FILES)
def test_a_resume_passes_over_a_damaged_checkpoint(tmp_path: Path, name: str) -> None:
    for step in (1, 2, 3):
        save(tmp_path, step, keep_last=3, pad="x" * 100)
    good, damaged = tmp_path / "step-000002", tmp_path / "step-000003"
    assert find_sound_checkpoint(tmp_path) == (damaged, [])
    spoil(damaged / name)
    found, ignored = find_sound_checkpoint(tmp_path)
    assert found == good and [path for path, _ in ignored] == [damaged]
    assert ignored[0][1].startswith(f"{damaged}: cannot be used: rank 0: {damaged}/{name}: damaged: sha256")
    (tmp_path / "step-000001" / "loop.json").unlink()
    spoil(good / name)
    found, ignored = find_sound_checkpoint(tmp_path)
    assert found is None and [path.name[-1] for path, _ in ignored] == ["3", "2", "1"]


def test_what_was_verified_is_read_for_its_hash_once(tmp_path: Path) -> None:
    """A damage that only hashing would see: `verified` leaves it to what was seen before."""
    path = save(tmp_path, 1, pad="x" * 100)
    spoil(path / "loop.json")
    tensors = state(0.0)
    load_tensors(path, tensors, verified=True)
    assert tensors["policy"]["w"].eq(1.0).all()


def test_what_was_saved_can_be_asked(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    told = {name: (tensor.shape, tensor.dtype) for name, tensor in saved_tensors(path, "policy").items()}
    assert told == {"w": ((4, 3), torch.float32), "half": ((3,), torch.bfloat16)}
    assert saved_tensors(path, "reference") == {}
    spoil(path / "tensors" / ".metadata")
    with pytest.raises(CheckpointError, match=r"\.metadata: damaged"):
        saved_tensors(path, "policy")


def test_a_checkpoint_can_be_named_by_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    for step in (1, 2, 3):
        save(run / "checkpoints", step, keep_last=3)
    (run / "checkpoints" / "step-000003" / "loop.json").unlink()
    first, newest = run / "checkpoints" / "step-000001", run / "checkpoints" / "step-000002"
    assert locate_checkpoint(first) == (first, [])
    for path in (run, run / "checkpoints"):
        found, ignored = locate_checkpoint(path)
        assert found == newest and [path.name for path, _ in ignored] == ["step-000003"]
    copy = Path(shutil.copytree(newest, tmp_path / "best"))
    assert locate_checkpoint(copy) == (copy, [])
    monkeypatch.chdir(first)
    assert locate_checkpoint(Path()) == (Path(), [])
    with pytest.raises(CheckpointError, match=r"step-000003/loop.json: missing"):
        locate_checkpoint(run / "checkpoints" / "step-000003")
    for path in (newest, first):
        (path / "MANIFEST.json").unlink()
    with pytest.raises(CheckpointError, match=r"MANIFEST.json: missing, so the checkpoint was never finished"):
        locate_checkpoint(newest)
    with pytest.raises(
        UsageError, match=r"run: holds no complete checkpoint \(.*step-000003/loop.json: missing; .*000001"
    ):
        locate_checkpoint(run)
    with pytest.raises(UsageError, match="nowhere: there is no such folder"):
        locate_checkpoint(tmp_path / "nowhere")


@pytest.mark.parametrize("limit", [0, 64, 30_000])  # before, at the head of, and inside a file of tensors
def test_a_failed_save_names_its_cause_and_the_last_complete_checkpoint(tmp_path: Path, limit: int) -> None:
    """A full disk, as near as a process can come to one without being root: no file may grow past a limit."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def failing(step: int) -> str:
        tensors = {"policy": {"w": torch.zeros(20_000)}}
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limits[1]))
        try:
            with pytest.raises(CheckpointError) as caught:
                save_checkpoint(tmp_path, step, tensors=tensors, loop_state={}, weights_digest="", keep_last=1)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        return str(caught.value)

    assert failing(1).endswith("File too large; there is no complete checkpoint yet")
    good = save(tmp_path, 10, value=0.5)
    for step in (20, 10):
        assert failing(step) == (
            f"{tmp_path}/.tmp-step-{step:06d}: cannot be written: rank 0: OSError: [Errno 27] File too large; "
            f"the last complete checkpoint is {good}"
        )
        assert value_of(good) == 0.5 and find_checkpoint(tmp_path)[0] == good


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


@pytest.mark.parametrize(("step", "keep_last", "keep_every"), [(-1, 1, 0), (1, 0, 0), (1, 1, -1)])
def test_senseless_arguments_are_refused(tmp_path: Path, step: int, keep_last: int, keep_every: int) -> None:
    with pytest.raises(ValueError, match="keep_last"):
        save(tmp_path, step, keep_last=keep_last, keep_every=keep_every)


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
    too_large, last = "OSError: [Errno 27] File too large", f"the last complete checkpoint is {root}/step-000001"
    assert first["rank_1_cannot_write"] == f"{unfinished}: cannot be written: rank 1: {too_large}; {last}"
    assert first["rank_0_cannot_finish"] == f"{unfinished}: cannot be finished: rank 0: {too_large}; {last}"
    assert first["rank_0_has_a_bad_state"].startswith(f"{unfinished}: cannot be prepared: rank 0: loop_state.tuple")
    assert "policy.w" in first["wrong_shape"] and first["wrong_shape"].startswith("CheckpointError")
    assert "tensors/__0_0.distcp: damaged" in first["damaged"]
    assert first["sound"][0] is None and first["sound"][1].count("tensors/__0_0.distcp: damaged") == 1
    assert first["good_after_all"] == str(root / "step-000002")
    assert names(root) == ["step-000002"]
