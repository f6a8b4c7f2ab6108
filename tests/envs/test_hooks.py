import asyncio
import inspect
import sys
from pathlib import Path

import pytest

from surefoot.envs.hooks import check_call, load_function
from surefoot.types.errors import HookError

PARAMETERS = ("prompt", "response", "label", "metadata")
MODULE = """
import {name}_other

NUMBER = 3

def plain(prompt, response, label, metadata):
    return {name}_other.VALUE

async def waits(prompt, response, label, metadata):
    return 2.0

def options(prompt, response, label, metadata, *, weight=1.0, needed):
    return needed

def anything(*args, **kwargs):
    return 4.0

def three(prompt, response, label):
    return 5.0

def five(prompt, response, label, metadata, more):
    return 6.0

class Scorer:
    def __call__(self, prompt, response, label, metadata):
        return 7.0

scorer = Scorer()
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """The name of a module in the current directory, which is not on sys.path; its own for each test."""
    name = "hooks_" + "".join(letter if letter.isalnum() else "_" for letter in request.node.name)
    (tmp_path / f"{name}.py").write_text(MODULE.format(name=name))
    (tmp_path / f"{name}_other.py").write_text("VALUE = 1.0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != ""])
    return name


def test_a_function_of_the_current_directory(module: str) -> None:
    before = list(sys.path)
    assert load_function(f"{module}.plain", PARAMETERS)("q", "r", None, {}) == 1.0
    assert sys.path == before


def test_async_objects_and_open_signatures(module: str) -> None:
    waits = load_function(f"{module}.waits", PARAMETERS)
    assert inspect.iscoroutinefunction(waits)
    assert asyncio.run(waits("q", "r", None, {})) == 2.0
    assert load_function(f"{module}.scorer", PARAMETERS)("q", "r", None, {}) == 7.0
    assert load_function(f"{module}.anything", PARAMETERS, keywords=["x"])("q", "r", None, {}, x=1) == 4.0


def test_options_are_checked(module: str) -> None:
    path = f"{module}.options"
    assert load_function(path, PARAMETERS, keywords=["needed"])("q", "r", None, {}, needed=3) == 3
    assert load_function(f"{module}.five", PARAMETERS, keywords=["more"])
    with pytest.raises(HookError, match=f"{path}.* cannot be called .*: missing a required .*'needed'"):
        load_function(path, PARAMETERS)
    with pytest.raises(HookError, match=f"{path} has no option 'wieght'; did you mean 'weight'"):
        load_function(path, PARAMETERS, keywords=["needed", "wieght"])
    with pytest.raises(HookError, match=f"{path}.* multiple values for argument 'label'"):
        load_function(path, PARAMETERS, keywords=["needed", "label"])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("three", "too many positional arguments"),
        ("five", "missing a required argument: 'more'"),
        ("plane", "has no 'plane'; did you mean 'plain'"),
        ("NUMBER", "is int, not a function"),
        ("missing.deeper", "No module named"),
    ],
)
def test_what_does_not_fit_is_named(module: str, name: str, reason: str) -> None:
    with pytest.raises(HookError, match=f"{module}.{name}.*{reason}"):
        load_function(f"{module}.{name}", PARAMETERS)


@pytest.mark.parametrize("path", ["", "function", "a..b", ".a.b", "a.b.", "a b.c", "a-b.c", "a/b.py"])
def test_no_import_path(path: str) -> None:
    with pytest.raises(HookError, match="is not an import path"):
        load_function(path, PARAMETERS)


def test_modules_that_cannot_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hooks_needs.py").write_text("import no_such_package_at_all")
    Path("hooks_raises.py").write_text("1 / 0")
    Path("hooks_syntax.py").write_text("def f(:")
    with pytest.raises(HookError, match=r"hooks_nowhere\.f: No module named 'hooks_nowhere'"):
        load_function("hooks_nowhere.f", PARAMETERS)
    with pytest.raises(HookError, match=r"hooks_needs\.f: No module named 'no_such_package_at_all'"):
        load_function("hooks_needs.f", PARAMETERS)
    with pytest.raises(HookError, match=r"hooks_raises\.f: importing hooks_raises raised ZeroDivisionError"):
        load_function("hooks_raises.f", PARAMETERS)
    with pytest.raises(HookError, match=r"hooks_syntax\.f: .*SyntaxError"):
        load_function("hooks_syntax.f", PARAMETERS)


def test_a_path_that_already_has_the_current_directory_is_left_alone(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    before = list(sys.path)
    load_function(f"{module}.plain", PARAMETERS)
    assert sys.path == before


def test_a_callable_without_a_signature() -> None:
    with pytest.raises(HookError, match="odd: its parameters cannot be read"):
        check_call(type("Number", (int,), {}), "odd", PARAMETERS, [])
