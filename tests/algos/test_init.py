"""What the package offers, and the rules its modules keep."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import surefoot.algos

MODULES = sorted(module.name for module in pkgutil.iter_modules(surefoot.algos.__path__))


def test_exports_exactly_the_documented_names() -> None:
    expected = {"group_advantages", "policy_loss", "kl_estimate", "importance_weights", "token_weights"}
    assert set(surefoot.algos.__all__) == expected
    assert all(callable(vars(surefoot.algos)[name]) for name in expected)


@pytest.mark.parametrize("name", MODULES)
def test_no_public_function_shares_a_modules_name(name: str) -> None:
    module = importlib.import_module(f"surefoot.algos.{name}")
    assert inspect.ismodule(vars(surefoot.algos)[name])  # a function of that name would have replaced it
    public = {n for n, f in inspect.getmembers(module, inspect.isfunction) if not n.startswith("_")}
    assert not public & set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_hold(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"surefoot.algos.{name}")).failed == 0
