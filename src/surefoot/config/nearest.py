"""How alike two spellings are. It stands alone so that what suggests a value need not load the configuration."""

from difflib import SequenceMatcher

NEAR_CHOICE = 0.7  # similarity below which a suggestion would mislead: "gpu" is not a misspelt "cpu"


def nearest_choice(word: str, choices: list[str]) -> str | None:
    """The choice a wrong value was probably meant to be, None where none is near.

    >>> nearest_choice("adamW", ["adamw", "sgd"])
    'adamw'
    """
    scores = [(similarity(plain(word), choice), choice) for choice in choices]
    score, choice = max(scores, key=lambda pair: pair[0], default=(0.0, ""))
    return choice if score >= NEAR_CHOICE else None


def plain(word: str) -> str:
    return word.lower().replace("-", "_")


def similarity(word: str, other: str, *, at_least: float = 0.0) -> float:
    """Share of matching characters, 0 to 1; where it cannot reach `at_least`, any number below."""
    matcher = SequenceMatcher(None, other, word, autojunk=False)
    if matcher.real_quick_ratio() < at_least or matcher.quick_ratio() < at_least:
        return 0.0
    return matcher.ratio()
