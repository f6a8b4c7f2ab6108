"""One prompt, one answer, one reward: the single-turn episode, and the group of them that a draw becomes."""

import asyncio
import math
from collections.abc import Sequence

from surefoot.envs.rubric import Rubric
from surefoot.types.errors import RewardError
from surefoot.types.protocols import Codec, Generate
from surefoot.types.rollout import Draw, Generation, Group, IntArray, Prompt, Request, Rollout, Sampling, Score, Turn


async def run_group(
    draw: Draw,
    prompt_ids_L: IntArray,
    seeds: Sequence[int],
    *,
    generate: Generate,
    codec: Codec,
    rubric: Rubric,
    sampling: Sampling,
) -> Group:
    """One rollout a seed, all at once and submitted in the order of the seeds.

    The first failure of `generate` is raised as it is, after the other rollouts were cancelled and have ended.
    """
    tasks = [
        asyncio.create_task(
            run_rollout(
                draw.prompt,
                prompt_ids_L,
                generate=generate,
                codec=codec,
                rubric=rubric,
                sampling=sampling,
                seed=seed,
            )
        )
        for seed in seeds
    ]
    try:
        rollouts = await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)  # no rollout outlives its group; the first error is raised
    return Group(id=draw.number, prompt=draw.prompt, rollouts=tuple(rollouts))


async def run_rollout(
    prompt: Prompt,
    prompt_ids_L: IntArray,
    *,
    generate: Generate,
    codec: Codec,
    rubric: Rubric,
    sampling: Sampling,
    seed: int,
) -> Rollout:
    """Sample one answer and score it. `response` is all of the decoded text; the reward sees it up to a stop string.

    A `RewardError` makes the rollout invalid with the reason "reward: ..." and a reward of NaN; every other error is
    raised.
    """
    generation = await generate(Request(prompt_ids_L=prompt_ids_L, sampling=sampling, seed=seed))
    response = codec.decode(generation.token_ids_C)
    try:
        score, invalid = await rubric.score(prompt, scored_text(response, generation, sampling)), ""
    except RewardError as error:
        score, invalid = Score(math.nan, {}, {}), f"reward: {error}"
    return Rollout(
        turns=(Turn(prompt_ids_L=prompt_ids_L, generation=generation, replies=(), reward=score.reward),),
        stop=generation.stop,
        response=response,
        seed=seed,
        reward=score.reward,
        reward_parts=score.parts,
        answers=score.answers,
        invalid=invalid,
    )


def scored_text(response: str, generation: Generation, sampling: Sampling) -> str:
    """The text before the first stop string, where one ended the generation; else all of it.

    A stop string that decoding leaves out, being a special token, cuts nothing.
    """
    if generation.stop != "stop_string":
        return response
    places = [place for stop in sampling.stop if (place := response.find(stop)) >= 0]
    return response[: min(places)] if places else response
