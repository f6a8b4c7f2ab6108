"""d3-retokenisation-drift, https://github.com/NovaSky-AI/SkyRL/issues/123

Sampled ids are decoded and encoded again before training, and come back as other ids. A sample holds the sampled ids.
"""

import random

import numpy as np

from surefoot.data import samples_from_groups
from surefoot.types.rollout import Generation, Group, Message, Prompt, Rollout, Sample, Turn

TEXT = {0: "a", 1: "b", 2: "ab"}
PROMPT = Prompt("p", "", (Message("user", "q"),), {"label": None, "metadata": {}})


def encode(text: str) -> list[int]:
    """Greedy longest match: what a round trip through text would give."""
    return [{"a": 0, "b": 1, "ab": 2}[piece] for piece in text.replace("ab", " ab ").split() for piece in pieces(piece)]


def pieces(text: str) -> list[str]:
    return [text] if text == "ab" else list(text)


def turn(prompt: list[int], ids: list[int]) -> Turn:
    generation = Generation(
        np.array(ids, dtype=np.int32),
        -np.arange(1, len(ids) + 1, dtype=np.float32),
        np.zeros(len(ids), dtype=np.int32),
        "length",
    )
    return Turn(np.array(prompt, dtype=np.int32), generation, (), 0.0)


def samples_of(*turns: Turn) -> list[Sample]:
    text = "".join(TEXT.get(int(token), "?") for token in turns[-1].generation.token_ids_C)
    return samples_from_groups([Group(0, PROMPT, (Rollout(turns, "length", text, 0, 1.0, {}, {}, ""),))], {(0, 0): 1.0})


def test_two_turns_keep_the_sampled_ids() -> None:
    assert encode("ab") == [2]  # the drift is there to be seen
    (sample,) = samples_of(turn([0], [0, 1]), turn([0, 0, 1, 2], [0, 1]))
    assert sample.token_ids_L[sample.loss_mask_L].tolist() == [0, 1, 0, 1]
    assert sample.token_ids_L.tolist() == [0, 0, 1, 2, 0, 1]
    assert len(sample.token_ids_L) == len(sample.behavior_logprobs_L) == len(sample.loss_mask_L)


def test_a_next_turn_that_was_encoded_anew_is_not_joined_by_force() -> None:
    first, second = samples_of(turn([0], [0, 1]), turn([0, 2, 2], [0, 1]))
    assert first.token_ids_L.tolist() == [0, 0, 1]
    assert second.token_ids_L.tolist() == [0, 2, 2, 0, 1]


def test_an_emoji_cut_in_the_middle_keeps_its_bytes() -> None:
    emoji = list("🙂".encode())
    assert emoji == [240, 159, 153, 130]
    (sample,) = samples_of(turn([7], emoji[:2]))
    assert sample.token_ids_L[sample.loss_mask_L].tolist() == [240, 159]  # by way of text: 239 191 189


def test_a_thousand_random_sequences_survive() -> None:
    rng = random.Random(0)
    drifted = 0
    for _ in range(1000):
        first, second = (rng.choices([0, 1, 2], k=rng.randint(1, 8)) for _ in range(2))
        prompt, reply = rng.choices([0, 1, 2], k=3), rng.choices([0, 1, 2], k=rng.randint(0, 3))
        (sample,) = samples_of(turn(prompt, first), turn(prompt + first + reply, second))
        assert sample.token_ids_L.tolist() == prompt + first + reply + second
        assert sample.token_ids_L[sample.loss_mask_L].tolist() == first + second
        logprobs = [*range(-1, -len(first) - 1, -1), *range(-1, -len(second) - 1, -1)]
        assert sample.behavior_logprobs_L[sample.loss_mask_L].tolist() == logprobs
        drifted += encode("".join(TEXT[token] for token in first)) != first
    assert drifted > 100  # sequences that a round trip through text would have changed
