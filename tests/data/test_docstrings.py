"""The worked examples in docstrings hold."""

import doctest
import importlib
import pkgutil

import pytest

import surefoot.data

MODULES = [module.name for module in pkgutil.walk_packages(surefoot.data.__path__, "surefoot.data.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
