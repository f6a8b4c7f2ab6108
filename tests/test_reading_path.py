"""docs/architecture.md lists the functions from a prompt to an updated weight; together they are one reading."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAX_LINES = 450
STEP = re.compile(r"^\d+\. `(?P<file>[\w/]+\.py):(?P<name>[\w.]+)` - ", re.MULTILINE)


def length(file: str, name: str) -> int:
    tree: ast.AST = ast.parse((ROOT / "src" / "surefoot" / file).read_text(encoding="utf8"))
    for part in name.split("."):
        inside = [node for node in ast.iter_child_nodes(tree) if getattr(node, "name", "") == part]
        assert inside, f"{file} has no {name}"
        tree = inside[0]
    assert isinstance(tree, (ast.FunctionDef, ast.AsyncFunctionDef))
    assert tree.end_lineno is not None
    return tree.end_lineno - tree.lineno + 1


def test_the_path_is_one_reading() -> None:
    steps = STEP.findall((ROOT / "docs" / "architecture.md").read_text(encoding="utf8"))
    assert len(steps) >= 20 and len(set(steps)) == len(steps)
    total = sum(length(file, name) for file, name in steps)
    assert total <= MAX_LINES, total
