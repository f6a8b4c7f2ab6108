"""Where each key of a TOML text stands. `tomllib` decides what is valid; this finds lines and reads past errors.

A text is cut into statements (a header, or a key and its value), each of which `tomllib` parses on its own.
"""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from surefoot.config.keys import Path, dotted

TOKEN = re.compile(
    r'(?P<string>"""(?:[^\\]|\\.)*?"""(?:"{0,2})|\'\'\'.*?\'\'\'(?:\'{0,2})|(?!""")"(?:[^"\\\n]|\\.)*"|(?!\'\'\')\'[^\'\n]*\')'
    r"|(?P<comment>#[^\n]*)|(?P<open>[\[{])|(?P<close>[\]}])|(?P<comma>,)|(?P<newline>\n)"
    r'|(?P<unclosed>"""|\'\'\')|(?P<space>[ \t]+)|(?P<other>[^"\'#\[\]{},\n \t]+|.)',
    re.DOTALL,
)
PLACE = re.compile(r" \((?:at line (\d+), column \d+|at end of document)\)$")


@dataclass(frozen=True, slots=True)
class Statement:
    line: int
    text: str
    items: tuple[int, ...]  # lines on which the items of an array value begin
    closed: bool


@dataclass(slots=True)
class Scan:
    """`lines`: first line of each place. `tree`: what could be read. `problems`: (line, why), for invalid texts.

    `broken` where a statement could not be read, so that `tree` lacks something.
    """

    lines: dict[Path, int] = field(default_factory=dict)
    tree: dict[str, Any] = field(default_factory=dict)
    problems: list[tuple[int, str]] = field(default_factory=list)
    broken: bool = False
    _headers: set[Path] = field(default_factory=set)
    _prefix: Path = ()


def scan_text(text: str) -> Scan:
    """Lines and values of a TOML text, valid or not.

    >>> scan_text("[optim]\\nlr = 1\\nlr = 2\\n").problems
    [(3, 'optim.lr is set twice, first on line 2')]
    """
    result = Scan()
    for statement in split_statements(text.replace("\r\n", "\n")):
        try:
            parsed = tomllib.loads(statement.text)
        except tomllib.TOMLDecodeError as error:
            result.broken = True
            result.problems.append((statement.line, error_text(error)))
            if not statement.closed:
                break  # the rest of the text is inside a bracket or string that never ends
        else:
            if statement.text.startswith("["):
                _enter(result, parsed, statement)
            else:
                _assign(result, result._prefix, parsed, statement)
    return result


def split_statements(text: str) -> Iterator[Statement]:
    line, depth, start, start_line = 1, 0, -1, 1
    items: list[int] = []
    fresh = closed = True  # fresh: the next token begins an item of an array
    for token in TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "newline" and depth == 0 and start >= 0 and closed:
            yield Statement(start_line, text[start : token.start()].rstrip(), tuple(items), True)
            start, items = -1, []
        elif kind not in ("space", "newline", "comment"):
            if start < 0:
                start, start_line = token.start(), line
            if depth == 1 and fresh and kind not in ("close", "comma"):
                items.append(line)
            fresh = (kind == "open" and depth == 0) or (kind == "comma" and depth == 1)
            depth = max(0, depth + (kind == "open") - (kind == "close"))
            closed = closed and kind != "unclosed"
        line += token.group().count("\n")
    if start >= 0:
        yield Statement(start_line, text[start:].rstrip(), tuple(items), closed and depth == 0)


def error_line(error: tomllib.TOMLDecodeError, text: str) -> int:
    """The line a `tomllib` message speaks of."""
    place = PLACE.search(str(error))
    return int(place.group(1)) if place and place.group(1) else text.rstrip().count("\n") + 1


def error_text(error: tomllib.TOMLDecodeError) -> str:
    return PLACE.sub("", str(error))


def _enter(result: Scan, parsed: dict[str, Any], statement: Statement) -> None:
    """A header: [a.b] or [[a.b]]; names that are lists stand for their last item."""
    names: list[str] = []
    node: Any = parsed
    while isinstance(node, dict) and node:
        name, node = next(iter(node.items()))
        names.append(name)
    path: Path = ()
    table: Any = result.tree
    for depth, name in enumerate(names):
        path = (*path, name)
        result.lines.setdefault(path, statement.line)
        is_list = isinstance(node, list) and depth == len(names) - 1
        child = table.setdefault(name, [] if is_list else {})
        if is_list and isinstance(child, list):
            child.append({})
        if isinstance(child, list) and child:
            path = (*path, len(child) - 1)
            child = child[-1]
        if not isinstance(child, dict):
            result.problems.append((statement.line, f"[{dotted(path)}] is already a value"))
            return
        table = child
    if path in result._headers:
        first = result.lines[path]
        result.problems.append((statement.line, f"[{dotted(path)}] stands twice, first on line {first}"))
    result._headers.add(path)
    result.lines.setdefault(path, statement.line)
    result._prefix = path


def _assign(result: Scan, prefix: Path, value: dict[str, Any], statement: Statement) -> None:
    table = _table_at(result.tree, prefix)
    for name, item in value.items():
        path = (*prefix, name)
        first = result.lines.setdefault(path, statement.line)
        if isinstance(item, dict) and item and isinstance(table.get(name, {}), dict):
            table.setdefault(name, {})
            _assign(result, path, item, statement)
        elif name in table:
            result.problems.append((statement.line, f"{dotted(path)} is set twice, first on line {first}"))
        else:
            table[name] = item
            _note_items(result, path, item, statement)


def _note_items(result: Scan, path: Path, item: Any, statement: Statement) -> None:
    """Lines of an array's items, which may be spread over several."""
    if not isinstance(item, list) or len(item) != len(statement.items):
        return
    for index, (line, entry) in enumerate(zip(statement.items, item, strict=True)):
        result.lines[(*path, index)] = line
        for name in entry if isinstance(entry, dict) else ():
            result.lines[(*path, index, name)] = line


def _table_at(tree: Any, path: Path) -> dict[str, Any]:
    node = tree
    for part in path:
        node = node[part]
    assert isinstance(node, dict)
    return node
