"""reasoning_gym's own scorers, for the prompts that it generated.

Some of them call `eval` on the answer (binary_matrix, n_queens): text from the policy runs as code.
"""

import pickle
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from surefoot.envs.rewards.extract import get_extractor
from surefoot.types.errors import RewardError

Scorer = Callable[[str, dict[str, Any]], float]


def score(
    prompt: str,
    response: str,
    label: Any,
    metadata: Mapping[str, Any],
    *,
    extract: str = "none",
) -> float:
    """What the generator `metadata["task"]` gives the answer to `metadata["entry"]`, usually 0 to 1, often in between.

    `metadata["params"]`, where there is one, holds the generator's options: some scorers use them. No answer found
    scores 0; without extraction the response goes in as it is, outer space too.
    Raises `RewardError` where metadata is not reasoning_gym's and where the scorer raises, as prime_factorization does
    on words.
    """
    scorer = _scorer_of(metadata)
    found = get_extractor(extract)(response)
    if found is None:
        return 0.0
    try:
        return float(scorer(found, metadata["entry"]))
    except Exception as error:
        raise RewardError(f"{metadata['task']}'s scorer raised {type(error).__name__}: {error}") from error


def check(label: Any, metadata: Mapping[str, Any], *, extract: str = "none") -> None:
    """Raise `RewardError` for a prompt that reasoning_gym did not generate."""
    _scorer_of(metadata)


def answer(response: str, *, extract: str = "none") -> str | None:
    """What is handed to the scorer; None where nothing is extracted."""
    return None if extract == "none" else get_extractor(extract)(response)


def prepare() -> None:
    import reasoning_gym  # noqa: F401 - takes a second, which is not the first answer's


def _scorer_of(metadata: Mapping[str, Any]) -> Scorer:
    missing = [key for key in ("task", "entry") if key not in metadata]
    if missing:
        raise RewardError(f"metadata has no {' and no '.join(missing)}: the prompt is not reasoning_gym's")
    return _scorer(str(metadata["task"]), pickle.dumps(metadata.get("params", {})))


@cache
def _scorer(task: str, pickled_params: bytes) -> Scorer:
    """Pickled to be a key of the cache: options may hold lists, and dates, which JSON cannot."""
    import reasoning_gym  # takes a second

    params = pickle.loads(pickled_params)
    try:
        dataset = reasoning_gym.create_dataset(task, size=1, seed=0, **params)
    except Exception as error:
        raise RewardError(f"task {task!r} with {params}: {type(error).__name__}: {error}") from error
    return dataset.score_answer  # type: ignore[no-any-return]
