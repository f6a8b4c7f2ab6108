"""docs/rewards.md: its TOML is read as a run would read it, and no built-in is left out."""

import importlib
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from surefoot.config.schema import RewardConfig
from surefoot.envs.grade import PARAMETERS
from surefoot.envs.hooks import check_call

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "rewards.md").read_text(encoding="utf8")
TABLES = [
    table
    for block in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    for table in tomllib.loads(block).get("env", {}).get("rewards", [])
]
NAMES = sorted(
    path.stem
    for path in (ROOT / "src" / "surefoot" / "envs" / "rewards").glob("*.py")
    if "def score(" in path.read_text(encoding="utf8")
)


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_example_can_be_used(table: dict[str, Any]) -> None:
    config = RewardConfig(**table)
    if not config.name:
        assert config.function
        return
    module = importlib.import_module(f"surefoot.envs.rewards.{config.name}")
    check_call(module.score, config.name, PARAMETERS, tuple(config.params))


@pytest.mark.parametrize("name", NAMES)
def test_every_builtin_has_its_row_and_its_example(name: str) -> None:
    assert f"| `{name}` |" in PAGE
    assert f"**{name}**" in PAGE
    assert any(table.get("name") == name for table in TABLES)
