"""Which checkpoints a folder holds, and which of them a resume would take. No torch: the command line asks too."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from surefoot.observe.rundir import RunDir
from surefoot.train.manifest import NAME, incompleteness, read_manifest
from surefoot.types.errors import CheckpointError, UsageError

UNFINISHED, DISPLACED = ".tmp-", ".old"
FOLDER = re.compile(r"(?P<unfinished>\.tmp-)?step-(?P<step>\d+)(?P<displaced>\.old)?")


@dataclass(frozen=True, slots=True)
class Entry:
    path: Path
    step: int
    problem: str  # "" = complete


def find_checkpoint(root: Path) -> tuple[Path | None, list[tuple[Path, str]]]:
    """The newest complete checkpoint under root, None where there is none, and the ones passed over with reasons.

    Complete means that every file of its manifest is there in its size. Errors: CheckpointError where root exists and
    cannot be listed.
    """
    entries = checkpoint_entries(root)
    complete = [entry.path for entry in entries if not entry.problem]
    return (complete[0] if complete else None), [(entry.path, entry.problem) for entry in entries if entry.problem]


def locate_checkpoint(path: Path) -> tuple[Path, list[tuple[Path, str]]]:
    """The checkpoint that a user names: its own folder, or a run's, or the one a run keeps them in. Of the latter two
    the newest complete one is taken; the second value is what was passed over, as from `find_checkpoint`.

    Errors: UsageError where there is none; CheckpointError where the folder is one that is not complete.
    """
    if not path.is_dir():
        raise UsageError(f"{path}: there is no such folder")
    if FOLDER.fullmatch(path.name) or (path / NAME).exists():
        problem = incompleteness(path, read_manifest(path).step)  # a copy may have any name
        if problem:
            raise CheckpointError(problem)
        return path, []
    inside = RunDir(path).checkpoints
    found, ignored = find_checkpoint(inside if inside.is_dir() else path)
    if found is None:
        reasons = "; ".join(reason for _, reason in ignored)
        raise UsageError(f"{path}: holds no complete checkpoint{f' ({reasons})' if reasons else ''}")
    return found, ignored


def checkpoint_entries(root: Path) -> list[Entry]:
    """Checkpoint folders, finished or not: newest first, and of one step the one to prefer first."""
    if not root.exists():
        return []
    try:
        names = os.listdir(root)
    except OSError as error:
        raise CheckpointError(f"{root}: cannot be listed: {error}") from error
    matches = [match for name in names if (match := FOLDER.fullmatch(name))]
    matches.sort(key=lambda m: (-int(m["step"]), m["unfinished"] is not None, m["displaced"] is not None, m.string))
    entries = []
    for match in matches:
        path, step = root / match.string, int(match["step"])
        problem = f"{path}: its save did not finish" if match["unfinished"] else incompleteness(path, step)
        entries.append(Entry(path, step, problem))
    return entries
