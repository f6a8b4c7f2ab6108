"""Suggestions name keys that exist."""

import pytest

from surefoot.config.aliases import ALIASES
from surefoot.config.keys import all_keys
from surefoot.config.suggest import nearest_key


@pytest.mark.parametrize("alias", ALIASES)
def test_an_alias_leads_to_its_key_from_anywhere(alias: str) -> None:
    assert ALIASES[alias] in all_keys()
    for section in ("", "model", "checkpoint"):
        path = (section, alias) if section else (alias,)
        near = nearest_key(path)
        named = {k.name for k in all_keys().values() if k.leaf == alias}  # a key of that very name comes first
        assert near is not None
        assert near.name == ALIASES[alias] or near.name in named


def test_the_customary_names_are_known() -> None:
    for name in ("learning_rate", "num_generations", "max_completion_length", "beta", "epsilon", "warmup_steps"):
        assert name in ALIASES


def test_spelling_in_the_same_section_wins() -> None:
    near = nearest_key(("train", "epoch"))
    assert near is not None
    assert near.name == "train.epochs"  # not data.epochs


def test_nothing_is_better_than_something_far() -> None:
    assert nearest_key(("optim", "zzzzzz")) is None
