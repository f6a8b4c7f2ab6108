"""Functions of the user's, named by import path: found and checked before a run starts."""

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from surefoot.config.nearest import nearest_choice
from surefoot.types.errors import HookError


def load_function(path: str, parameters: Sequence[str], *, keywords: Sequence[str] = ()) -> Callable[..., Any]:
    """The function at "package.module.function", async or not, callable as f(*parameters, **keywords).

    Raises `HookError` naming the path, as `find_function` does and for other parameters.
    """
    function = find_function(path)
    check_call(function, path, parameters, keywords)
    return function


def find_function(path: str) -> Callable[..., Any]:
    """What stands at "package.module.function".

    The current directory is importable while the module is imported, and only then: what a function imports when it
    is called must be installed, or be imported at its module's top.
    Raises `HookError` naming the path: nothing there, an import that fails, not callable.
    """
    module_name, _, name = path.rpartition(".")
    if not all(part.isidentifier() for part in path.split(".")) or not module_name:
        raise HookError(f"{path!r} is not an import path like package.module.function")
    module = _import(module_name, path)
    if not hasattr(module, name):
        near = nearest_choice(name, list(vars(module)))
        raise HookError(f"{path}: {module_name} has no {name!r}" + (f"; did you mean {near!r}?" if near else ""))
    function = getattr(module, name)
    if not callable(function):
        raise HookError(f"{path} is {type(function).__name__}, not a function")
    return function  # type: ignore[no-any-return]


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call waits for its result: an `async def`, or an object whose `__call__` is one."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def check_call(function: Callable[..., Any], name: str, parameters: Sequence[str], keywords: Sequence[str]) -> None:
    """Raise `HookError` unless f(*parameters, **keywords) fits the signature; types are not checked."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError) as error:
        raise HookError(f"{name}: its parameters cannot be read: {error}") from error
    _refuse_unknown(signature, name, parameters, keywords)
    try:
        signature.bind(*parameters, **dict.fromkeys(keywords))
    except TypeError as error:
        call = ", ".join([*parameters, *(f"{keyword}=..." for keyword in keywords)])
        raise HookError(f"{name}{signature} cannot be called as f({call}): {error}") from error


def _refuse_unknown(
    signature: inspect.Signature, name: str, parameters: Sequence[str], keywords: Sequence[str]
) -> None:
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    if inspect.Parameter.VAR_KEYWORD in kinds:
        return
    free = list(signature.parameters)[len(parameters) :]
    for keyword in keywords:
        if keyword not in signature.parameters:
            near = nearest_choice(keyword, free)
            hint = f"did you mean {near!r}?" if near else f"it has {', '.join(free) or 'none'}"
            raise HookError(f"{name} has no option {keyword!r}; {hint}")


def _import(module_name: str, path: str) -> ModuleType:
    try:
        with _current_directory_importable():
            return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise HookError(f"{path}: {error.msg}; looked in {os.getcwd()} and what is installed") from error
    except Exception as error:  # whatever the user's module does at its top
        raise HookError(f"{path}: importing {module_name} raised {type(error).__name__}: {error}") from error


@contextmanager
def _current_directory_importable() -> Iterator[None]:
    here = os.getcwd()
    if here in sys.path or "" in sys.path:
        yield
        return
    sys.path.insert(0, here)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(here)
