"""The house style as tests: layers, sizes, imports without effects, nothing silent."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "surefoot"
MAX_FILE, MAX_FUNCTION = 500, 60
LAYERS = (  # lowest first: a package imports only from rows before its own
    {"types"},
    {"config"},
    {"observe"},
    {"data", "envs", "algos"},
    {"nn"},
    {"engines", "train"},
    {"weights", "diagnose", "interop"},
    {"loop"},
    {"bench"},
    {"cli"},
)
ONLY_IN = {  # a heavy dependency -> the files, or folders, that may import it
    "pyarrow": ("observe/rollouts.py", "data/arrow.py", "data/parquet.py"),
    "datasets": ("data/hf.py",),
    "reasoning_gym": ("data/gym.py", "envs/rewards/reasoning_gym.py"),
    "math_verify": ("envs/rewards/mathematics/symbolic.py",),
    "sympy": ("envs/rewards/mathematics/symbolic.py",),
    "mpmath": ("envs/rewards/mathematics/numeric.py",),
    "typer": ("cli/",),
    "rich": ("observe/console.py", "cli/"),
    "ray": ("loop/ray.py",),
    "vllm": ("engines/vllm.py", "weights/vllm_worker.py"),
    "sglang": ("engines/sglang.py", "weights/sglang_worker.py"),
    "httpx": ("envs/rewards/remote.py",),
    "wandb": ("observe/trackers/wandb.py",),
    "tensorboard": ("observe/trackers/tensorboard.py",),
}

Modules = list[tuple[str, str, ast.Module]]  # (path under the package, text, tree)


@cache
def read_modules(root: Path = ROOT) -> Modules:
    files = [(path, path.read_text(encoding="utf8")) for path in sorted(root.rglob("*.py"))]
    return [(path.relative_to(root).as_posix(), text, ast.parse(text)) for path, text in files]


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)


def layer_errors(modules: Modules) -> Iterator[str]:
    rank = {name: i for i, layer in enumerate(LAYERS) for name in layer}
    for file, _, tree in modules:
        here = file.split("/")[0]
        if "/" in file and here not in rank:
            yield f"{file}: package {here} has no layer"
        for name in imports(tree):
            parts = name.split(".")
            if name.startswith("."):
                yield f"{file}: relative import {name}"
            inside = parts[0] == "surefoot" and len(parts) > 1 and here in rank and parts[1] != here
            if inside and rank.get(parts[1], len(LAYERS)) >= rank[here]:
                yield f"{file} imports {name}: {here} may only import lower layers"


def dependency_errors(modules: Modules) -> Iterator[str]:
    for file, _, tree in modules:
        for name in imports(tree):
            allowed = ONLY_IN.get(name.split(".")[0])
            if allowed is not None and not any(file == a or (a.endswith("/") and file.startswith(a)) for a in allowed):
                yield f"{file} imports {name}, allowed only in {', '.join(allowed)}"


def size_errors(modules: Modules) -> Iterator[str]:
    for file, text, tree in modules:
        lines = text.count("\n")
        if lines > MAX_FILE:
            yield f"{file}: {lines} lines > {MAX_FILE}"
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > MAX_FUNCTION:
                    yield f"{file}:{node.name}: {length} lines > {MAX_FUNCTION}"


def import_effect_errors(modules: Modules) -> Iterator[str]:
    for file, _, tree in modules:
        for node in tree.body:
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                yield f"{file}:{node.lineno}: call at import time"
            targets = node.targets if isinstance(node, ast.Assign) else []
            if any(isinstance(target, (ast.Attribute, ast.Subscript)) for target in targets):
                yield f"{file}:{node.lineno}: patches or mutates something at import time"


def silence_errors(modules: Modules) -> Iterator[str]:
    for file, _, tree in modules:
        for node in ast.walk(tree):
            if isinstance(node, ast.ExceptHandler) and all(isinstance(b, (ast.Pass, ast.Continue)) for b in node.body):
                yield f"{file}:{node.lineno}: swallowed exception"
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr" and len(node.args) == 3:
                yield f"{file}:{node.lineno}: getattr with a default hides typos"
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
                yield f"{file}:{node.lineno}: suppress swallows exceptions"


def name_errors(modules: Modules) -> Iterator[str]:
    """`nan_to_num` hides evidence; cached memory is released in one file, which drains what used it first."""
    for file, _, tree in modules:
        for node in ast.walk(tree):
            name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
            name = node.name.split(".")[-1] if isinstance(node, ast.alias) else name
            if name.startswith("nan_to_num"):
                yield f"{file}: {name}"
            if name == "empty_cache" and file != "nn/memory.py":
                yield f"{file}: empty_cache outside nn/memory.py"


def shadow_errors(modules: Modules) -> Iterator[str]:
    """A function that a package offers under the name of one of its modules would replace that module."""
    files = [file for file, _, _ in modules]
    for file, _, tree in modules:
        if not file.endswith("__init__.py"):
            continue
        folder = file.removesuffix("__init__.py")
        inside = {
            rest.split("/")[0].removesuffix(".py") for f in files if (rest := f.removeprefix(folder)) != f or not folder
        }
        for node in tree.body:
            module = "surefoot." + folder.replace("/", ".").rstrip(".")
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                bound = {node.name}
            elif isinstance(node, ast.ImportFrom) and node.module != module.rstrip(
                "."
            ):  # `from package import module` is fine
                bound = {alias.asname or alias.name for alias in node.names}
            else:
                bound = set()
            yield from (f"{file}: {name} shares a module's name" for name in sorted(bound & inside))


RULES = {
    rule.__name__: rule
    for rule in (
        layer_errors,
        dependency_errors,
        size_errors,
        import_effect_errors,
        silence_errors,
        name_errors,
        shadow_errors,
    )
}
BREACHES = {  # a file of a made-up package that breaks each rule
    "layer_errors": ("observe/a.py", "from surefoot.algos.loss import policy_loss\n"),
    "dependency_errors": ("data/a.py", "import pyarrow.parquet as pq\n"),
    "size_errors": ("data/a.py", "def f():\n" + "    x = 1\n" * 60),
    "import_effect_errors": ("data/a.py", "import os\nos.environ['A'] = '1'\n"),
    "silence_errors": ("data/a.py", "try:\n    f()\nexcept ValueError:\n    pass\n"),
    "name_errors": ("data/a.py", "import torch\ntorch.cuda.empty_cache()\n"),
    "shadow_errors": ("data/__init__.py", "from surefoot.data.loss import loss\n"),
}


@pytest.mark.parametrize("name", RULES)
def test_rule_holds(name: str) -> None:
    assert not list(RULES[name](read_modules()))


@pytest.mark.parametrize("name", RULES)
def test_rule_sees_a_breach(name: str, tmp_path: Path) -> None:
    file, text = BREACHES[name]
    for path, content in ((file, text), ("data/loss.py", "x = 1\n")):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(content)
    assert len(list(RULES[name](read_modules(tmp_path)))) == 1


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("train/a.py", "from surefoot.engines.inprocess import engine\n"),  # one row
        ("data/a.py", "from . import b\n"),
        ("oddities/a.py", "x = 1\n"),  # a package without a layer
    ],
)
def test_layer_rule_sees(file: str, text: str, tmp_path: Path) -> None:
    (tmp_path / file).parent.mkdir()
    (tmp_path / file).write_text(text)
    assert len(list(layer_errors(read_modules(tmp_path)))) == 1
