"""The worked examples in docstrings hold."""

import doctest
import importlib
import pkgutil

import pytest

import surefoot.observe

MODULES = [module.name for module in pkgutil.walk_packages(surefoot.observe.__path__, "surefoot.observe.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
