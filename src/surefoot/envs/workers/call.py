"""What is sent to a worker, and the frames in which everything travels.

To a worker go pickles: the run trusts itself. Back come JSON objects only, because text of the policy may have run as
code in a worker and no byte from there may become code here.
"""

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from surefoot.envs.grade import Mark, Question

LENGTH = struct.Struct("<I")
HEAD = struct.Struct("<cQ")  # of a request: its kind and its number
LOAD, CALL = b"L", b"C"
MESSAGE = struct.Struct("<cQi")  # between run and nursery: kind, the worker's number, its wait status
FORK, KILL, DIED = b"F", b"K", b"D"
MAX_REPLY = 1 << 18  # bytes; an answer, an error and what was printed fit, whatever they are


@dataclass(frozen=True, slots=True)
class Target:
    """What a worker imports: a built-in by its name, or the user's function by its path."""

    kind: Literal["builtin", "function"]
    name: str
    shared: bool  # an async function: a worker runs many of its calls at once


@dataclass(frozen=True, slots=True)
class Call:
    """One question to one reward. `timeout`: seconds from when a worker starts on it."""

    part: str  # whose reward it is, for errors
    target: Target
    params: Mapping[str, Any]
    timeout: float
    question: Question


class Inbox:
    """Bytes in, whole frames out. Raises `ValueError` for a frame longer than `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._bytes = bytearray()
        self._limit = limit

    def feed(self, data: bytes) -> list[bytes]:
        self._bytes += data
        frames = []
        while len(self._bytes) >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._bytes)
            if length > self._limit:
                raise ValueError(f"a frame of {length} bytes, more than {self._limit}")
            end = LENGTH.size + length
            if len(self._bytes) < end:
                break
            frames.append(bytes(self._bytes[LENGTH.size : end]))
            del self._bytes[:end]
        return frames


def frame(*parts: bytes) -> bytes:
    return b"".join((LENGTH.pack(sum(map(len, parts))), *parts))


@dataclass(frozen=True, slots=True)
class Reply:
    """To a LOAD: no mark. `error` follows the part's name, as in " returned nan"; "" where there is none."""

    number: int
    mark: Mark | None
    error: str
    printed: str

    def pack(self) -> bytes:
        mark = self.mark and [self.mark.value, self.mark.answer]
        return frame(json.dumps([self.number, mark, self.error, self.printed], allow_nan=False).encode())

    @classmethod
    def unpack(cls, body: bytes) -> "Reply":
        """Raises `ValueError` for anything else, however it came about."""
        try:
            number, mark, error, printed = json.loads(body)
            value, answer = mark or (0.0, None)
        except (ValueError, TypeError, RecursionError) as fault:
            raise ValueError(f"no reply: {fault}") from fault
        right = isinstance(number, int) and isinstance(error, str) and isinstance(printed, str)
        if not right or not isinstance(value, float) or not math.isfinite(value):
            raise ValueError("no reply: a field is of the wrong type")
        if not isinstance(answer, str | None):
            raise ValueError("no reply: the answer is no text")
        return cls(number, Mark(value, answer) if mark else None, error, printed)
