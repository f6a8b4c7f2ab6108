"""Files that survive a power cut: forced to disk, and there whole or not at all."""

import os
from pathlib import Path


def write_durably(path: Path, data: bytes) -> None:
    """The content is on disk before this returns; the new name is, once the folder was synced. Raises OSError."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Force the folder's own entries to disk: without it a rename or a new file can be lost in a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomic(path: Path, data: bytes) -> None:
    """The file is there whole or not at all: written beside, synced to the disk, renamed. Raises OSError."""
    beside = path.with_name(f".{path.name}.tmp")
    try:
        write_durably(beside, data)
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
