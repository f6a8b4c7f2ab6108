"""What training consumes and reports.

Letters: T packed tokens of a micro-batch, S samples in it, R ranks, M micro-batches of a rank.
Arrays live on the host until a micro-batch is run: after a device error they are still there to be saved.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from surefoot.types.rollout import BoolArray, FloatArray, IntArray, SampleRef

Verdict = Literal["applied", "skipped", "halted"]
Reason = Literal[
    "ok",
    "overflow",
    "nonfinite_loss",
    "nonfinite_grad",
    "nonfinite_param",
    "hook",
    "error",
    "empty_batch",
    "zero_signal",
    "skip_budget_exhausted",
    "user_policy",
    "rollout_only",
]
OldSource = Literal["sampler", "trainer"]


@dataclass(frozen=True, slots=True, eq=False)
class Microbatch:
    """Packed samples. Position t reads `input_ids_T[t]` and is trained to predict `labels_T[t]`.

    `sample_ids_T` counts samples over the whole batch, so per-sample sums need no rank or micro-batch.
    `reference_logprobs_T` is empty (length 0) where no reference model is in use.
    """

    input_ids_T: IntArray
    labels_T: IntArray
    positions_T: IntArray
    cu_seqlens_S1: IntArray
    sample_ids_T: IntArray
    loss_mask_T: BoolArray
    token_weights_T: FloatArray
    behavior_logprobs_T: FloatArray
    old_logprobs_T: FloatArray
    reference_logprobs_T: FloatArray
    advantages_T: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """One update's data for all ranks; every rank has the same number of micro-batches."""

    microbatches_RM: tuple[tuple[Microbatch, ...], ...]
    num_tokens: int  # trainable ones
    num_samples: int
    refs: tuple[SampleRef, ...]  # indexed by `sample_ids_T`
    min_version: int
    max_version: int
    old_source: OldSource


@dataclass(frozen=True, slots=True)
class NonFinite:
    """Where an attempt met inf or NaN, over all ranks, in the order in which a step computes."""

    inputs: int  # trainable tokens whose given log-probs or advantage are not finite
    logprobs: int  # trainable tokens whose log-prob under the policy is not
    losses: int  # micro-batches whose loss is not
    gradient: bool  # an entry of the gradient is not, as backward left it (scaled)

    def __str__(self) -> str:
        """In words, e.g. "2 tokens' log-probs, gradient"; "" where everything was finite."""
        counted = ((self.inputs, "tokens' inputs"), (self.logprobs, "tokens' log-probs"), (self.losses, "losses"))
        seen = [f"{count} {what}" for count, what in counted if count]
        return ", ".join([*seen, *(["gradient"] if self.gradient else [])])


@dataclass(frozen=True, slots=True)
class StepReport:
    """What became of one attempt at an update. `version` is the policy's before it; a skip changes nothing."""

    step: int
    attempt: int
    version: int
    verdict: Verdict
    reason: Reason
    detail: str  # what stands behind the reason: where numbers were not finite, what a hook or an error said
    nonfinite: NonFinite
    loss: float
    grad_norm: float  # unscaled, before clipping; inf and nan are reported as they are
    loss_scale: float
    next_loss_scale: float
    lr: float
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ParamSpec:
    name: str
    shape: tuple[int, ...]
    dtype: str
    digest: str


@dataclass(frozen=True, slots=True)
class WeightManifest:
    """Precedes a weight transfer; the receiver proves its own copy against it."""

    version: int
    params: tuple[ParamSpec, ...]
    digest: str
