"""What a reward prints: kept up to a bound, thrown away beyond it."""

import io
from collections.abc import Callable
from typing import Any

BYTES = 2048  # of one call


class Output:
    """The beginning of what was written."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._cut = False

    def add(self, data: memoryview) -> None:
        room = BYTES - len(self._kept)
        self._kept += data[:room]
        self._cut = self._cut or len(data) > room

    def take(self) -> str:
        """The text so far, which is then forgotten."""
        text = self._kept.decode("utf8", "replace") + (f"... (cut at {BYTES} bytes)" if self._cut else "")
        self._kept.clear()
        self._cut = False
        return text


class _Sink(io.RawIOBase):
    def __init__(self, current: Callable[[], Output]) -> None:
        self._current = current

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        with memoryview(data) as view:
            self._current().add(view)
            return view.nbytes


def text_stream(current: Callable[[], Output]) -> io.TextIOWrapper:
    """A stream like `sys.stdout` that writes to the `Output` of the current call, and never waits."""
    sink: Any = _Sink(current)  # a raw stream serves as the buffer, as under `python -u`
    return io.TextIOWrapper(sink, encoding="utf8", errors="backslashreplace", write_through=True)
