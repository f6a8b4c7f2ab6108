"""The alphabet of the small runs, and rewards for them. Imports nothing heavy: each reward worker imports this."""

import asyncio

LETTERS = "abcdefghijklmnopqrstuvwxyzABCD"


def letter_reward(prompt: str, response: str, label: object, metadata: object) -> float:
    """The share of letters in the alphabet's first half: something a small model can move towards."""
    return sum(letter in LETTERS[:15] for letter in response) / max(1, len(response))


def moody_reward(prompt: str, response: str, label: object, metadata: object) -> float | None:
    """Fails for one prompt always and for some responses of the others."""
    if prompt.startswith(LETTERS[3]):
        raise ValueError("no grade today")
    return None if len(response) % 2 else letter_reward(prompt, response, label, metadata)


async def slow_reward(prompt: str, response: str, label: object, metadata: object) -> float:
    await asyncio.sleep(0.01)
    return letter_reward(prompt, response, label, metadata)


def failing_reward(prompt: str, response: str, label: object, metadata: object) -> float:
    raise ValueError("no grade")


def constant_reward(prompt: str, response: str, label: object, metadata: object) -> float:
    return 0.7


def long_enough(prompt: str, response: str, label: object, metadata: object) -> float:
    return float(len(response) >= 3)
