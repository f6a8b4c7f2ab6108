"""The valid key nearest to one that is not: by spelling, across sections, and by other trainers' names."""

from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache, lru_cache

from surefoot.config.aliases import ALIASES
from surefoot.config.keys import Key, Path, all_keys, dotted, find_key, without_indices

NEAR = 0.6  # similarity below which a suggestion would mislead
NEAR_CHOICE = 0.7  # the same for a value: "gpu" is not a misspelt "cpu"
SAME_SECTION = 0.15  # what being in the section the user wrote is worth
EXACT = 0.2  # what it is worth to be spelt just so, though elsewhere


@dataclass(frozen=True, slots=True)
class Candidate:
    spelling: str  # what is compared
    key: Key
    alias: bool


def nearest_key(path: Path) -> Key | None:
    """The key a wrong one was probably meant to be; None where nothing is near.

    >>> nearest_key(("rollout", "warmup_steps")).name
    'optim.warmup'
    """
    best = _nearest(path)
    return best.key if best else None


def nearest_choice(word: str, choices: list[str]) -> str | None:
    """The choice a wrong value was probably meant to be, None where none is near.

    >>> nearest_choice("adamW", ["adamw", "sgd"])
    'adamw'
    """
    scores = [(_similarity(_plain(word), choice), choice) for choice in choices]
    score, choice = max(scores, key=lambda pair: pair[0], default=(0.0, ""))
    return choice if score >= NEAR_CHOICE else None


def unknown_key(path: Path) -> str:
    """Why `path` is no key, and what it should be."""
    name = dotted(path)
    best = _nearest(path)
    if best is not None:
        known_as = f" (also known as {best.spelling})" if best.alias else ""
        beside = best.key.section == without_indices(path[:-1])
        own = dotted((*path[:-1], best.key.leaf)) if beside else best.key.name  # keeps the index of a list's item
        target = f"[{own}]" if best.key.table else own
        return f"{name} is not a key; did you mean {target}{known_as}?"
    return f"{name} is not a key; {_choices(path)}"


@lru_cache(maxsize=256)
def _nearest(path: Path) -> Candidate | None:
    name, section = without_indices(path[-1:]), without_indices(path[:-1])
    word = _plain(name)
    best: Candidate | None = None
    best_score = 0.0
    for candidate in _candidates():
        beside = SAME_SECTION * (candidate.key.section == section) + EXACT * (candidate.spelling == word)
        similarity = _similarity(word, candidate.spelling, at_least=max(NEAR, best_score - beside))
        if similarity + beside > best_score and similarity >= NEAR and candidate.key.name != without_indices(path):
            best, best_score = candidate, similarity + beside
    return best


def _choices(path: Path) -> str:
    """What would be valid where the path leaves the schema."""
    good = next((path[:end] for end in range(len(path) - 1, 0, -1) if find_key(path[:end])), ())
    key = find_key(good) if good else None
    if key is not None and key.table is None:
        return f"{key.name} holds a value, not a table"
    section = key.name if key else ""
    here = [k.leaf for k in all_keys().values() if k.section == section]
    if section:
        return f"[{section}] has {', '.join(here)}"
    nowhere = f"there is no [{path[0]}]; " if len(path) > 1 else ""
    return f"{nowhere}the sections are {', '.join(here)}"


@cache
def _candidates() -> tuple[Candidate, ...]:
    keys = all_keys()
    own = tuple(Candidate(key.leaf, key, False) for key in keys.values())
    return own + tuple(Candidate(alias, keys[name], True) for alias, name in ALIASES.items())


def _plain(word: str) -> str:
    return word.lower().replace("-", "_")


def _similarity(word: str, other: str, *, at_least: float = 0.0) -> float:
    """Share of matching characters, 0 to 1; where it cannot reach `at_least`, any number below."""
    matcher = SequenceMatcher(None, other, word, autojunk=False)
    if matcher.real_quick_ratio() < at_least or matcher.quick_ratio() < at_least:
        return 0.0
    return matcher.ratio()
