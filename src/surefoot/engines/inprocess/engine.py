"""The in-process engine: samples from a model in this process, many rollouts at once.

    generate() --> waiting --admit: prefill each distinct prompt once--> running (slots 0 .. B-1)
                                                                            | one decode step: one token each
    caller <-- future <-- stop: end token, stop string, length <------------+

Callers wait on futures of the event loop; the pump, a task of that loop, makes all steps and yields between them, so
episodes and rewards go on while others still sample. Weights change only between generations, never under one.
"""

import asyncio
import itertools
import math
from collections import deque
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from surefoot.engines.inprocess.cache import DecodeLayout, PrefillLayout, SlotCache
from surefoot.engines.inprocess.job import Decode, Job
from surefoot.engines.inprocess.sampling import choose, choose_greedy, uniforms
from surefoot.nn.attention import PackedLayout
from surefoot.nn.digest import tensor_digest
from surefoot.nn.logprobs import head_logits
from surefoot.nn.model import CausalLM
from surefoot.types.errors import EngineError, WeightSyncError
from surefoot.types.rollout import Generation, Request
from surefoot.types.train import WeightManifest

PREFILL_TOKENS = 8192  # packed at once


class InProcessEngine:
    """`shared`: the model's parameters are the trainer's own, so weights are never sent, only their version moves."""

    def __init__(
        self, model: CausalLM, *, decode: Decode, eos_ids: frozenset[int], max_slots: int, shared: bool
    ) -> None:
        self.model, self.decode, self.eos_ids, self.shared = model, decode, eos_ids, shared
        self.max_slots = max_slots
        self.cache = SlotCache(max_slots)
        self.waiting: deque[Job] = deque()
        self.running: list[Job] = []  # index = slot
        self._version = -1  # no weights were published to it yet
        self._half_written = False  # a sync failed, so the copy is no policy of any version
        self._pump: asyncio.Task[None] | None = None

    @property
    def version(self) -> int:
        return self._version

    async def generate(self, request: Request) -> Generation:
        """Tokens until an end token, a stop string or the length limit.

        Raises `EngineError` on non-finite logits, `WeightSyncError` where the last sync failed.
        """
        if self._half_written:
            raise WeightSyncError("the last weight sync failed half-way: no policy can be sampled from")
        job = Job(request, asyncio.get_running_loop().create_future())
        self.waiting.append(job)
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._run())
        return await job.future

    async def _run(self) -> None:
        try:
            while self.waiting or self.running:
                self._admit()
                self._step()
                await asyncio.sleep(0)
        except Exception as error:
            for job in (*self.running, *self.waiting):
                if not job.future.done():
                    job.future.set_exception(error)
            self.running.clear()
            self.waiting.clear()

    @torch.no_grad()
    def _admit(self) -> None:
        """Fill free slots. Rollouts admitted together that share a prompt share its prefill."""
        room, tokens = min(self.max_slots - len(self.running), len(self.waiting)), 0
        newcomers: list[Job] = []  # they wait until their prompts are computed: a failure must find them
        for job in itertools.islice(self.waiting, room):
            if tokens >= PREFILL_TOKENS:
                break
            newcomers.append(job)
            tokens += job.prompt_length
        if not newcomers:
            return
        self.cache.reserve(max(job.capacity for job in newcomers))
        first = len(self.running)
        keys = [job.request.prompt_ids_L.tobytes() for job in newcomers]
        row_of = {key: row for row, key in enumerate(dict.fromkeys(keys))}
        leaders = [keys.index(key) for key in row_of]  # the first with each prompt computes it for the others
        states_PE = self._prefill([newcomers[i] for i in leaders], [first + i for i in leaders])
        rows = [row_of[key] for key in keys]
        for i, row in enumerate(rows):
            if i != leaders[row]:
                self.cache.copy(first + leaders[row], first + i)
        self.running += newcomers
        for _ in newcomers:
            self.waiting.popleft()
        self._sample(newcomers, states_PE[rows])
        self._retire()

    def _prefill(self, jobs: list[Job], slots: list[int]) -> Tensor:
        """Last hidden state [P, E] of each prompt."""
        device = self.model.head_weight_VE.device
        prompts = [torch.from_numpy(job.request.prompt_ids_L).long() for job in jobs]
        packed = PackedLayout([len(p) for p in prompts], device)
        ids_T = torch.cat(prompts).to(device)
        positions_T = torch.cat([torch.arange(len(p)) for p in prompts]).to(device)
        states_1TE = self.model.hidden(ids_T[None], positions_T[None], PrefillLayout(packed, self.cache, slots))
        ends = torch.tensor(packed.lengths).cumsum(0) - 1
        return states_1TE[0, ends.to(device)]

    @torch.no_grad()
    def _step(self) -> None:
        """One token for every running rollout."""
        if not self.running:
            return
        device = self.model.head_weight_VE.device
        lengths_B = torch.tensor([job.cached for job in self.running], device=device)
        ids_B1 = torch.tensor([[job.token_ids[-1]] for job in self.running], device=device)
        states_B1E = self.model.hidden(ids_B1, lengths_B[:, None], DecodeLayout(self.cache, lengths_B))
        self._sample(self.running, states_B1E[:, 0])
        self._retire()

    def _sample(self, jobs: list[Job], states_BE: Tensor) -> None:
        temperatures = {job.request.sampling.temperature for job in jobs}
        tokens, logprobs = [0] * len(jobs), [0.0] * len(jobs)
        for temperature in sorted(temperatures):  # one in training; evaluation beside it may bring another
            rows = [i for i, job in enumerate(jobs) if job.request.sampling.temperature == temperature]
            logits_BV = head_logits(states_BE[rows], self.model.head_weight_VE, temperature or 1.0)
            if temperature:
                numbers = uniforms([jobs[i].request.seed for i in rows], [len(jobs[i].token_ids) for i in rows])
                chosen = choose(logits_BV, torch.from_numpy(numbers).to(logits_BV.device))
            else:
                chosen = choose_greedy(logits_BV)
            for i, token, logprob in zip(rows, *(x.tolist() for x in chosen), strict=True):
                tokens[i], logprobs[i] = token, logprob
        for job, token, logprob in zip(jobs, tokens, logprobs, strict=True):
            if math.isnan(logprob):
                where = f"token {len(job.token_ids)} of a rollout, policy version {self._version}"
                raise EngineError(f"the policy's logits are not finite at {where}")
            job.add(token, logprob, self._version)

    def _retire(self) -> None:
        """Hand out what is done; the last running rollout moves into the slot that became free."""
        for slot in range(len(self.running) - 1, -1, -1):
            stop = self.running[slot].stop(self.eos_ids, self.decode)
            if stop is None:
                continue
            self.running[slot].finish(stop)
            last = self.running.pop()
            if slot < len(self.running):
                self.cache.copy(len(self.running), slot)
                self.running[slot] = last

    def advance(self, version: int) -> None:
        """The trainer updated the shared parameters: what is sampled from here on carries `version`."""
        if not self.shared:
            raise WeightSyncError("this engine holds its own copy of the weights: send them")
        self._refuse_move(version)
        self._version = version

    @torch.no_grad()
    def set_weights(self, manifest: WeightManifest, tensors: Iterable[tuple[str, Any]]) -> None:
        """Replace the copy. The version moves only after every tensor's digest equals the manifest's."""
        if self.shared:
            raise WeightSyncError("this engine samples from the trainer's own parameters: nothing is sent")
        self._refuse_move(manifest.version)
        self._half_written = True
        own = dict(self.model.named_parameters())
        for name, tensor in tensors:
            if name not in own:
                raise WeightSyncError(f"{name}: not a tensor of the engine's model")
            own[name].copy_(tensor)
        expected = {spec.name: spec.digest for spec in manifest.params}
        if missing := sorted(own.keys() - expected.keys()):
            raise WeightSyncError(f"{missing[0]}: not in the manifest of version {manifest.version}")
        for name, digest in expected.items():
            if name not in own or tensor_digest(own[name]) != digest:
                raise WeightSyncError(f"{name}: the engine's copy is not version {manifest.version} of the trainer's")
        self._half_written = False
        self._version = manifest.version

    def _refuse_move(self, version: int) -> None:
        if self.waiting or self.running:
            raise WeightSyncError("weights cannot change while rollouts are running")
        if version <= self._version:
            raise WeightSyncError(f"version {version} is not newer than {self._version}, which is published already")

    def close(self) -> None:
        self.cache = SlotCache(self.max_slots)
