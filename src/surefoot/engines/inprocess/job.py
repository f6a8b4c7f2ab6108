"""One rollout while it runs: its tokens so far, and whether it is done."""

import asyncio
from collections.abc import Callable

import numpy as np

from surefoot.types.rollout import Generation, Request, Stop

Decode = Callable[[list[int]], str]
TAIL_MARGIN = 8  # tokens read beside a stop string's own bytes: the first of a cut may decode to nothing


class Job:
    def __init__(self, request: Request, future: "asyncio.Future[Generation]") -> None:
        self.request, self.future = request, future
        self.token_ids: list[int] = []
        self.logprobs: list[float] = []
        self.versions: list[int] = []
        self._tail = TAIL_MARGIN + max((len(s.encode()) for s in request.sampling.stop), default=0)

    @property
    def prompt_length(self) -> int:
        return len(self.request.prompt_ids_L)

    @property
    def capacity(self) -> int:
        """Tokens its slot may come to hold."""
        return self.prompt_length + self.request.sampling.max_new_tokens

    @property
    def cached(self) -> int:
        """Tokens its slot holds before the next decode step: all but the newest, which that step reads."""
        return self.prompt_length + len(self.token_ids) - 1

    def add(self, token: int, logprob: float, version: int) -> None:
        self.token_ids.append(token)
        self.logprobs.append(logprob)
        self.versions.append(version)

    def stop(self, eos_ids: frozenset[int], decode: Decode) -> Stop | None:
        """Why it is done, or None. An end at the last allowed token is an end, not a truncation."""
        if self.token_ids[-1] in eos_ids:
            return "eos"
        strings = self.request.sampling.stop
        if strings and any(s in decode(self.token_ids[-self._tail :]) for s in strings):
            return "stop_string"
        return "length" if len(self.token_ids) >= self.request.sampling.max_new_tokens else None

    def finish(self, stop: Stop) -> None:
        generation = Generation(
            token_ids_C=np.asarray(self.token_ids, np.int32),
            logprobs_C=np.asarray(self.logprobs, np.float32),
            versions_C=np.asarray(self.versions, np.int32),
            stop=stop,
        )
        if not self.future.done():  # a caller that gave up has cancelled it
            self.future.set_result(generation)
