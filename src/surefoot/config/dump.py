"""A configuration as TOML that loads back to an equal one."""

from typing import Any

import tomli_w

from surefoot.config.effects import no_effect
from surefoot.config.schema import RunConfig
from surefoot.types.errors import ConfigError


def dump_config(config: RunConfig) -> str:
    """Every key with its value, defaults too, so that a saved run does not change with the package.

    A key that holds its default and has no effect in the chosen mode is left out: it would only earn a warning.
    Raises ConfigError for a value TOML cannot hold (a `params` table built in Python).
    """
    tree = config.model_dump()
    for name in no_effect(config):
        _drop_default(config, tree, name)
    try:
        return tomli_w.dumps(tree)
    except TypeError as error:
        raise ConfigError(f"a value cannot be written as TOML: {error}") from error


def _drop_default(config: RunConfig, tree: dict[str, Any], name: str) -> None:
    section: Any = config
    node: Any = tree
    *outer, leaf = name.split(".")
    for part in outer:
        section = section[int(part)] if isinstance(section, list) else getattr(section, part)
        node = node[int(part)] if isinstance(node, list) else node[part]
    if node[leaf] == type(section).model_fields[leaf].default:
        del node[leaf]
