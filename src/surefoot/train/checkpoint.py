"""Checkpoints that are whole or not there.

    root/step-000010/{tensors/, loop.json, MANIFEST.json}

all ranks   write their shards to root/.tmp-step-000010/tensors
rank 0      loop.json, then MANIFEST.json over all of it, everything forced to disk
rank 0      one rename to step-000010, forced to disk; only then older checkpoints go

A process killed at any point leaves the previous checkpoint as it was. Step 10 saved again moves the complete one
to step-000010.old for the moment between two renames, where it is still found.
"""

import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from surefoot.observe.durable import sync_folder, write_durably
from surefoot.train.find import DISPLACED, UNFINISHED, checkpoint_entries, find_checkpoint
from surefoot.train.manifest import (
    describe,
    incompleteness,
    read_manifest,
    verify,
    write_manifest,
)
from surefoot.types.errors import CheckpointError

TENSORS, LOOP = "tensors", "loop.json"
DELETED = ".del-"


def save_checkpoint(
    root: Path,
    step: int,
    *,
    tensors: dict[str, Any],
    loop_state: dict[str, Any],
    weights_digest: str,
    keep_last: int,
    keep_every: int = 0,
) -> Path:
    """Write checkpoint `step` under root and return its folder; a collective where a process group is initialised.

    tensors: nested dict of tensors, DTensors and plain values, each rank its own. loop_state: what JSON holds, of
    rank 0. keep_last: newest complete checkpoints to keep, this one included; those whose step is a multiple of
    `keep_every` stay as well (0 = none). The rest, and broken ones up to this step, are deleted after this one is
    safe. What an earlier save left unfinished is removed first.

    Errors: CheckpointError naming path, cause and the last complete checkpoint, the same on every rank whichever
    failed (disk full, size limit, a value that JSON would change). Earlier checkpoints are then as they were and the
    unfinished folder stays behind, until the next save.
    """
    if step < 0 or keep_last < 1 or keep_every < 0:
        raise ValueError(f"step {step}, checkpoint.keep_last {keep_last} or checkpoint.keep_every {keep_every} too low")
    final = root / f"step-{step:06d}"
    unfinished = root / f"{UNFINISHED}{final.name}"
    leads = _rank() == 0

    def prepare() -> None:
        if leads:
            _check_json(loop_state, "loop_state")
            _clear_leftovers(root)
            (unfinished / TENSORS).mkdir(parents=True)
            sync_folder(root.parent)

    def seal() -> None:
        if leads:
            write_durably(unfinished / LOOP, json.dumps(loop_state).encode())
            manifest = describe(unfinished, step, weights_digest)
            sync_folder(unfinished / TENSORS)
            write_manifest(unfinished, manifest)
            sync_folder(unfinished)
            _move_in(unfinished, final, step)

    def prune() -> None:
        if leads:
            _prune(final, step, keep_last, keep_every)

    try:
        _together(f"{unfinished}: cannot be prepared", prepare)
        _together(f"{unfinished}: cannot be written", partial(_run_dcp, _save, unfinished / TENSORS, tensors))
        _together(f"{unfinished}: cannot be finished", seal)
    except CheckpointError as error:
        raise CheckpointError(f"{error}; {_what_remains(root)}") from error
    _together(f"{final} is complete, but older ones cannot be removed", prune)
    return final


def find_sound_checkpoint(root: Path) -> tuple[Path | None, list[tuple[Path, str]]]:
    """As `find_checkpoint`, but what it picks was read and is what was saved; a damaged one is passed over as well.

    A collective: each rank reads its share of the files. `load_tensors(..., verified=True)` need not read them again.
    """
    found, ignored = None, []
    for entry in checkpoint_entries(root):
        problem = entry.problem or ("" if found else _damage(entry.path))
        if problem:
            ignored.append((entry.path, problem))
        elif found is None:
            found = entry.path
    return found, ignored


def load_tensors(path: Path, tensors: dict[str, Any], *, verified: bool = False) -> None:
    """Fill `tensors` in place from a checkpoint, whatever number of ranks saved it; a collective like the save.

    tensors: as given to the save in names, shapes and dtypes, or a part of it; plain values are replaced in their
    dicts. verified: `find_sound_checkpoint` named it, so its files are not hashed again.
    Errors: CheckpointError, the same on every rank, naming the damaged file or the key that does not fit.
    """
    what = f"{path}: cannot be loaded"
    if not verified:
        _together(what, partial(_verify_my_share, path))
    _together(what, partial(_check_dtypes, path / TENSORS, tensors))
    _together(what, partial(_run_dcp, load, path / TENSORS, tensors))


def load_loop_state(path: Path) -> dict[str, Any]:
    """The loop state of a checkpoint. Errors: CheckpointError where it is not the file that was saved."""
    verify(path, read_manifest(path), LOOP)
    state: dict[str, Any] = json.loads((path / LOOP).read_text(encoding="utf8"))
    return state


def saved_tensors(path: Path, part: str) -> dict[str, torch.Tensor]:
    """Shapes and dtypes, as tensors of the meta device, of what was saved under `part`: "policy" for the masters.

    Errors: CheckpointError where the checkpoint's table of contents is not the file that was saved.
    """
    verify(path, read_manifest(path), f"{TENSORS}/.metadata")
    return {
        str(keys[1]): torch.empty(saved.size, dtype=saved.properties.dtype, device="meta")
        for keys, saved in _contents(path / TENSORS)
        if keys[0] == part
    }


def _verify_my_share(path: Path) -> None:
    manifest = read_manifest(path)
    for name in sorted(manifest.files)[_rank() :: _world_size()]:
        verify(path, manifest, name)


def _damage(path: Path) -> str:
    """What is wrong with the files of a checkpoint, "" where nothing is; the same on every rank."""
    try:
        _together(f"{path}: cannot be used", partial(_verify_my_share, path))
    except CheckpointError as error:
        return str(error)
    return ""


def _what_remains(root: Path) -> str:
    """For whoever reads that a save failed: where the run could go on from."""
    try:
        last, _ = find_checkpoint(root)
    except CheckpointError as error:
        return str(error)
    return f"the last complete checkpoint is {last}" if last else "there is no complete checkpoint yet"


def _clear_leftovers(root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for path in root.iterdir():
        if path.name.startswith((f"{UNFINISHED}step-", f"{DELETED}step-")):
            shutil.rmtree(path)


def _move_in(unfinished: Path, final: Path, step: int) -> None:
    if final.exists() and incompleteness(final, step):
        _discard(final)
    if final.exists():
        displaced = final.with_name(final.name + DISPLACED)
        if displaced.exists():
            _discard(displaced)
        os.replace(final, displaced)
    os.replace(unfinished, final)
    sync_folder(final.parent)


def _prune(final: Path, step: int, keep_last: int, keep_every: int) -> None:
    entries = checkpoint_entries(final.parent)
    newest_first: dict[int, Path] = {}
    for entry in entries:
        if not entry.problem:
            newest_first.setdefault(entry.step, entry.path)
    keep = {final, *[path for path in newest_first.values() if path != final][: keep_last - 1]}
    if keep_every:
        keep |= {path for number, path in newest_first.items() if number % keep_every == 0}
    for entry in entries:
        if entry.path not in keep and not (entry.problem and entry.step > step):
            _discard(entry.path)


def _discard(path: Path) -> None:
    """Out of sight in one rename, so that a deletion cut short leaves nothing that looks like a checkpoint."""
    doomed = path.with_name(DELETED + path.name)
    os.replace(path, doomed)
    shutil.rmtree(doomed)


def _check_json(value: Any, where: str) -> None:
    """JSON turns keys of other types into text, and tuples into lists: refuse what would not come back the same."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise CheckpointError(f"{where}: key {key!r} is not text")
            _check_json(item, f"{where}.{key}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _check_json(item, f"{where}[{number}]")
    elif value is not None and not isinstance(value, str | int | float):
        raise CheckpointError(f"{where}: {type(value).__name__} does not come back from JSON as it was")


def _check_dtypes(folder: Path, tensors: dict[str, Any]) -> None:
    """The load would convert without a word: float32 weights into float16 or even integers."""
    for keys, saved in _contents(folder):
        dtype, wanted = saved.properties.dtype, _at(tensors, keys)
        if isinstance(wanted, torch.Tensor) and dtype != wanted.dtype:
            raise CheckpointError(f"{'.'.join(map(str, keys))} was saved as {dtype} and is wanted as {wanted.dtype}")


def _contents(folder: Path) -> Iterator[tuple[tuple[str | int, ...], TensorStorageMetadata]]:
    """Every saved tensor: the keys that lead to it, and what it was saved as."""
    metadata = FileSystemReader(folder).read_metadata()
    for name, keys in (metadata.planner_data or {}).items():
        saved = metadata.state_dict_metadata[name]
        if isinstance(saved, TensorStorageMetadata):
            yield keys, saved


def _at(tree: Any, keys: tuple[str | int, ...]) -> Any:
    """The leaf under these keys, None where there is none."""
    for key in keys:
        known = key in tree if isinstance(tree, dict) else isinstance(tree, list) and key in range(len(tree))
        if not known:
            return None
        tree = tree[key]
    return tree


class _PlainWriter(FileSystemWriter):
    """Where the disk is full, closing the archive fails in its turn and hides why: this raises the disk's own error."""

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        try:
            return super().write_data(plan, planner)
        except Exception as error:
            first: BaseException | None = error
            while first is not None and not isinstance(first, OSError):
                first = first.__context__
            raise (first or error) from None


def _save(tensors: dict[str, Any], *, checkpoint_id: Path, no_dist: bool) -> None:
    save(tensors, storage_writer=_PlainWriter(checkpoint_id), no_dist=no_dist)


def _run_dcp(call: Callable[..., Any], folder: Path, tensors: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        # One process without a group is an ordinary run here, not something to warn about.
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        call(tensors, checkpoint_id=folder, no_dist=not dist.is_initialized())


def _together(what: str, work: Callable[[], None]) -> None:
    """Do this rank's part; where it failed on any rank, raise the same CheckpointError on every rank."""
    failure: BaseException | None = None
    try:
        work()
    except (Exception, CheckpointException) as error:  # the latter is no Exception
        failure = error
    texts = _gather("" if failure is None else _cause(failure))
    first = next((text for text in texts if text), "")
    if first:
        raise CheckpointError(f"{what}: {first}") from failure


def _cause(error: BaseException) -> str:
    if isinstance(error, CheckpointException):
        causes = sorted((rank, cause) for rank, (cause, _) in error.failures.items())
        return "; ".join(f"rank {rank}: {type(cause).__name__}: {cause}" for rank, cause in causes)
    kind = "" if isinstance(error, CheckpointError) else f"{type(error).__name__}: "
    return f"rank {_rank()}: {kind}{error}"


def _gather(text: str) -> list[str]:
    if not dist.is_initialized():
        return [text]
    texts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(texts, text)
    return texts


def _rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def _world_size() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1
