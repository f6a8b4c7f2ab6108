"""The worked examples in docstrings hold."""

import doctest
import importlib
import pkgutil

import pytest

import surefoot.config

MODULES = [module.name for module in pkgutil.walk_packages(surefoot.config.__path__, "surefoot.config.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
