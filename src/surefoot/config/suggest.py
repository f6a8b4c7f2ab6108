"""The valid key nearest to one that is not: by spelling, across sections, and by other trainers' names."""

from dataclasses import dataclass
from functools import cache, lru_cache

from surefoot.config.aliases import ALIASES
from surefoot.config.keys import Key, Path, all_keys, dotted, find_key, without_indices
from surefoot.config.nearest import plain, similarity

NEAR = 0.6  # similarity below which a suggestion would mislead
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
    word = plain(name)
    best: Candidate | None = None
    best_score = 0.0
    for candidate in _candidates():
        beside = SAME_SECTION * (candidate.key.section == section) + EXACT * (candidate.spelling == word)
        score = similarity(word, candidate.spelling, at_least=max(NEAR, best_score - beside))
        if score + beside > best_score and score >= NEAR and candidate.key.name != without_indices(path):
            best, best_score = candidate, score + beside
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
