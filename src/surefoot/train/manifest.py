"""What a checkpoint folder must hold to be complete: MANIFEST.json, written after everything else."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from surefoot.observe.durable import write_durably
from surefoot.types.errors import CheckpointError

FORMAT = 1
NAME = "MANIFEST.json"


@dataclass(frozen=True, slots=True)
class FileEntry:
    size: int  # bytes
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    step: int
    weights_digest: str
    files: Mapping[str, FileEntry]  # by path inside the folder, with forward slashes


def describe(folder: Path, step: int, weights_digest: str) -> Manifest:
    """Every file under the folder, forced to disk and hashed."""
    files = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        with path.open("rb") as stream:
            os.fsync(stream.fileno())
            files[path.relative_to(folder).as_posix()] = FileEntry(path.stat().st_size, _sha256(path))
    return Manifest(step, weights_digest, files)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    write_durably(folder / NAME, json.dumps({"format": FORMAT, **asdict(manifest)}, indent=1).encode())


def read_manifest(folder: Path) -> Manifest:
    """Errors: CheckpointError naming the file where it is missing, damaged or of another format."""
    path = folder / NAME
    try:
        content = json.loads(path.read_text(encoding="utf8"))
    except FileNotFoundError as error:
        raise CheckpointError(f"{path}: missing, so the checkpoint was never finished") from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: unreadable: {error}") from error
    return _parse(path, content)


def incompleteness(folder: Path, step: int) -> str:
    """Why the folder is no complete checkpoint of this step, "" where it is one. By sizes; hashes wait for the load."""
    try:
        manifest = read_manifest(folder)
    except CheckpointError as error:
        return str(error)
    if manifest.step != step:
        return f"{folder / NAME}: is of step {manifest.step}"
    for name, entry in manifest.files.items():
        path = folder / name
        if not path.is_file():
            return f"{path}: missing"
        if path.stat().st_size != entry.size:
            return f"{path}: {path.stat().st_size} bytes, the manifest says {entry.size}"
    return ""


def verify(folder: Path, manifest: Manifest, name: str) -> None:
    """Errors: CheckpointError where the file is not the one that was saved."""
    path = folder / name
    if name not in manifest.files:
        raise CheckpointError(f"{path}: not in the manifest")
    try:
        digest = _sha256(path)
    except OSError as error:
        raise CheckpointError(f"{path}: unreadable: {error}") from error
    if digest != manifest.files[name].sha256:
        raise CheckpointError(f"{path}: damaged: sha256 {digest}, the manifest says {manifest.files[name].sha256}")


def _parse(path: Path, content: Any) -> Manifest:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise CheckpointError(f"{path}: not a manifest of format {FORMAT}")
    try:
        files = {str(name): FileEntry(int(e["size"]), str(e["sha256"])) for name, e in content["files"].items()}
        return Manifest(int(content["step"]), str(content["weights_digest"]), files)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path}: damaged: {type(error).__name__} {error}") from error


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
