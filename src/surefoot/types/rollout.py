"""What sampling makes: prompts, generations, rollouts, groups, samples.

Every record is frozen and complete at birth: a later stage makes a new record, it never fills one in.
Letters: G rollouts of a group, C tokens of a completion, L tokens of a sample (prompt and completions).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int32]
FloatArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]

Stop = Literal["eos", "stop_string", "length"]  # `length` is truncation; the other two are the policy's own doing


@dataclass(frozen=True, slots=True)
class Message:
    role: str
    content: str


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """One row of a data set. `payload` holds `label` and `metadata`; nothing in it reaches the policy."""

    id: str
    env: str
    messages: tuple[Message, ...]
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Draw:
    """A prompt taken from the stream. `number` counts draws over the whole run, so it is unique where ids repeat."""

    number: int
    epoch: int
    row: int
    prompt: Prompt


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a completion is sampled. Temperature 0 is greedy, for evaluation."""

    temperature: float
    max_new_tokens: int
    stop: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    prompt_ids_L: IntArray
    sampling: Sampling
    seed: int  # of the rollout; with the position it fixes each token's random number


@dataclass(frozen=True, slots=True, eq=False)
class Generation:
    """Sampled tokens; log-probs are those of the distribution sampled from, versions those of the policy."""

    token_ids_C: IntArray
    logprobs_C: FloatArray
    versions_C: IntArray
    stop: Stop


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    prompt_ids_L: IntArray
    generation: Generation
    replies: tuple[Message, ...]  # what the environment answered, if it did
    reward: float


@dataclass(frozen=True, slots=True)
class Score:
    """What a rubric makes of one answer. `parts` are without their weights."""

    reward: float
    parts: Mapping[str, float]
    answers: Mapping[str, str]  # part -> the text that its extraction accepted; parts that found none are not in it


@dataclass(frozen=True, slots=True, eq=False)
class Rollout:
    """One episode. Where `invalid` is not empty it is the reason, and `reward` is NaN."""

    turns: tuple[Turn, ...]
    stop: Stop
    response: str  # decoded for rewards and for people; training uses the token ids
    seed: int
    reward: float
    reward_parts: Mapping[str, float]
    answers: Mapping[str, str]  # as in `Score`
    invalid: str


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """The rollouts of one draw; `id` is the draw's number."""

    id: int
    prompt: Prompt
    rollouts: tuple[Rollout, ...]


@dataclass(frozen=True, slots=True, order=True)
class SampleRef:
    group: int
    rollout: int
    part: int  # a rollout whose turns share no prefix fans out into several samples


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One training sequence. Arrays are aligned to `token_ids_L`: entry t speaks of token t."""

    ref: SampleRef
    token_ids_L: IntArray
    loss_mask_L: BoolArray
    behavior_logprobs_L: FloatArray
    versions_L: IntArray
    advantages_L: FloatArray
