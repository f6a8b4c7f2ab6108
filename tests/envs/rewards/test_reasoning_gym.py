"""Expected scores are reasoning_gym's own."""

from decimal import Decimal
from typing import Any

import pytest
import reasoning_gym

from surefoot.envs import rewards
from surefoot.types.errors import RewardError

score = rewards.get("reasoning_gym")


def row(task: str, **params: Any) -> dict[str, Any]:
    dataset = reasoning_gym.create_dataset(task, size=1, seed=3, **params)
    return {"task": task, "params": params, "entry": dataset[0]}


@pytest.mark.parametrize("task", ["products", "chain_sum", "letter_counting", "prime_factorization"])
def test_the_right_answer_scores_one(task: str) -> None:
    metadata = row(task)
    assert score("q", metadata["entry"]["answer"], None, metadata) == 1


def test_partial_scores_are_kept() -> None:
    metadata = row("products")
    answer = metadata["entry"]["answer"]
    scorer = reasoning_gym.get_score_answer_fn("products")
    said = f"It is {answer}."
    assert score("q", said, None, metadata) == scorer(said, metadata["entry"]) < 1
    assert score("q", said, None, metadata, extract="last_number") == 1
    assert score("q", "no idea", None, metadata, extract="last_number") == 0


def test_params_are_optional() -> None:
    metadata = row("products")
    del metadata["params"]
    assert score("q", metadata["entry"]["answer"], None, metadata) == 1


def test_the_scorer_uses_the_generators_options() -> None:
    options = {"min_num_decimal_places": 6, "max_num_decimal_places": 6}
    metadata = row("decimal_arithmetic", **options)
    answer = str(Decimal(metadata["entry"]["answer"]) + Decimal("1e-4"))
    own = reasoning_gym.create_dataset("decimal_arithmetic", size=1, seed=3, **options)
    default = reasoning_gym.get_score_answer_fn("decimal_arithmetic")
    expected = own.score_answer(answer, metadata["entry"])
    assert expected != default(answer, metadata["entry"])
    assert score("q", answer, None, metadata) == expected


def test_a_scorer_that_raises() -> None:
    with pytest.raises(RewardError, match=r"prime_factorization's scorer raised ValueError: .*'hello world'"):
        score("q", "hello world", None, row("prime_factorization"))


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({}, "no task and no entry"),
        ({"task": "products"}, "metadata has no entry"),
        ({"task": "prodcts", "entry": {}}, "'prodcts'"),
        ({"task": ["products"], "entry": {}}, "not registered"),
        ({"task": "products", "entry": {}, "params": {"x": 1}}, "unexpected keyword argument 'x'"),
        ({"task": "products", "entry": {}, "params": [1]}, "must be a mapping, not list"),
        ({"task": "products", "entry": {}}, "products's scorer raised KeyError: 'answer'"),
    ],
)
def test_metadata_that_is_not_reasoning_gyms(metadata: dict[str, Any], reason: str) -> None:
    with pytest.raises(RewardError, match=reason):
        score("q", "4", None, metadata)
