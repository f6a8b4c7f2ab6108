"""Which checkpoints a folder holds, and which of them a resume would take. No torch: the command line asks too."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from surefoot.train.manifest import incompleteness
from surefoot.types.errors import CheckpointError

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
