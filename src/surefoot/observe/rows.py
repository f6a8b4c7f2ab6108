"""Rows of the ledger and how SQLite keeps them.

SQLite stores NaN as NULL, so NaN is stored as the text 'nan'; infinities are kept as they are.
"""

import json
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from surefoot.types.train import OldSource, Reason, Verdict

Fate = Literal["trained", "partly_trained", "dropped"]


@dataclass(frozen=True, slots=True)
class StepRow:
    """One attempt at an update. `bundle` is relative to the run's folder, "" where none was written."""

    step: int
    attempt: int
    mini_batch: int  # which of the step's updates was attempted
    started_at: float  # seconds since 1970
    verdict: Verdict
    reason: Reason
    detail: str  # what stands behind the reason
    policy_version: int  # before the attempt
    loss: float
    grad_norm: float
    loss_scale: float
    next_loss_scale: float
    lr: float
    num_tokens: int
    num_samples: int
    num_prompts: int
    min_version: int
    max_version: int
    nonfinite_inputs: int  # trainable tokens whose given log-probs or advantage are not finite
    nonfinite_logprobs: int  # trainable tokens
    nonfinite_losses: int  # micro-batches
    nonfinite_grad: bool
    mismatch_mean: float
    mismatch_p99: float
    mismatch_max: float
    reward_mean: float
    reward_std: float
    old_source: OldSource
    bundle: str
    seconds: float
    spans: Mapping[str, float]  # stage -> seconds


@dataclass(frozen=True, slots=True)
class PromptFate:
    """What became of a draw, decided at `step`. A reason is owed for all that was not trained on in full."""

    draw: int
    fate: Fate
    reason: str
    step: int


@dataclass(frozen=True, slots=True)
class SampleRow:
    """What became of a sample. `updates` counts the applied updates it entered; trained means at least one."""

    draw: int
    rollout: int
    part: int
    step: int
    fate: Literal["trained", "dropped"]
    reason: str
    updates: int
    num_tokens: int  # trainable ones
    min_version: int
    max_version: int
    reward: float
    stop: str


@dataclass(frozen=True)
class Table:
    """`columns`: name -> SQL type. `clock`: columns that differ between two equal runs."""

    name: str
    columns: Mapping[str, str]
    key: tuple[str, ...]
    clock: tuple[str, ...] = ()

    @property
    def create(self) -> str:
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        key = ", ".join((*self.key, "superseded"))
        return (
            f"CREATE TABLE {self.name} ({columns}, superseded INTEGER NOT NULL DEFAULT 0, "
            f"PRIMARY KEY ({key})) WITHOUT ROWID"
        )

    @cached_property
    def read(self) -> Callable[[Any], tuple[Any, ...]]:
        """From a row dataclass to its fields, in the columns' order."""
        return operator.attrgetter(*self.columns)

    @cached_property
    def encoders(self) -> tuple[Callable[[str, Any], Any], ...]:
        kinds = ((name, kind.split()[0]) for name, kind in self.columns.items())
        return tuple(_encode_spans if name == "spans" else ENCODERS[kind] for name, kind in kinds)

    @property
    def repeated(self) -> list[str]:
        """The columns that two equal runs share."""
        return [name for name in self.columns if name not in self.clock]


STEPS = Table(
    "steps",
    {
        "step": "INTEGER NOT NULL",
        "attempt": "INTEGER NOT NULL",
        "mini_batch": "INTEGER NOT NULL",
        "started_at": "REAL NOT NULL",
        "verdict": "TEXT NOT NULL",
        "reason": "TEXT NOT NULL",
        "detail": "TEXT NOT NULL",
        "policy_version": "INTEGER NOT NULL",
        "loss": "REAL NOT NULL",
        "grad_norm": "REAL NOT NULL",
        "loss_scale": "REAL NOT NULL",
        "next_loss_scale": "REAL NOT NULL",
        "lr": "REAL NOT NULL",
        "num_tokens": "INTEGER NOT NULL",
        "num_samples": "INTEGER NOT NULL",
        "num_prompts": "INTEGER NOT NULL",
        "min_version": "INTEGER NOT NULL",
        "max_version": "INTEGER NOT NULL",
        "nonfinite_inputs": "INTEGER NOT NULL",
        "nonfinite_logprobs": "INTEGER NOT NULL",
        "nonfinite_losses": "INTEGER NOT NULL",
        "nonfinite_grad": "INTEGER NOT NULL",
        "mismatch_mean": "REAL NOT NULL",
        "mismatch_p99": "REAL NOT NULL",
        "mismatch_max": "REAL NOT NULL",
        "reward_mean": "REAL NOT NULL",
        "reward_std": "REAL NOT NULL",
        "old_source": "TEXT NOT NULL",
        "bundle": "TEXT NOT NULL",
        "seconds": "REAL NOT NULL",
        "spans": "TEXT NOT NULL",
    },
    key=("step", "attempt"),
    clock=("started_at", "seconds", "spans"),
)
PROMPTS = Table(
    "prompts",
    {
        "draw": "INTEGER NOT NULL",
        "epoch": "INTEGER NOT NULL",
        "row": "INTEGER NOT NULL",
        "prompt_id": "TEXT NOT NULL",
        "drawn_at_step": "INTEGER NOT NULL",
        "fate": "TEXT NOT NULL CHECK (fate IN ('trained', 'partly_trained', 'dropped', 'in_flight'))",
        "reason": "TEXT NOT NULL",
        "step": "INTEGER",  # at which the fate was decided; NULL in flight
    },
    key=("draw",),
)
SAMPLES = Table(
    "samples",
    {
        "draw": "INTEGER NOT NULL",
        "rollout": "INTEGER NOT NULL",
        "part": "INTEGER NOT NULL",
        "step": "INTEGER NOT NULL",
        "fate": "TEXT NOT NULL CHECK (fate IN ('trained', 'dropped'))",
        "reason": "TEXT NOT NULL",
        "updates": "INTEGER NOT NULL",
        "num_tokens": "INTEGER NOT NULL",
        "min_version": "INTEGER NOT NULL",
        "max_version": "INTEGER NOT NULL",
        "reward": "REAL NOT NULL",
        "stop": "TEXT NOT NULL",
    },
    key=("draw", "rollout", "part"),
)
TABLES = (STEPS, PROMPTS, SAMPLES)
EVENTS = "CREATE TABLE events (id INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, detail TEXT NOT NULL)"


def to_sql(table: Table, row: Any) -> tuple[Any, ...]:
    """A row dataclass as its columns' values, in their order. TypeError or ValueError where one is not of its type."""
    fields = zip(table.columns, table.encoders, table.read(row), strict=True)
    return tuple(encode(name, value) for name, encode, value in fields)


def from_sql(table: Table, values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a row dataclass from what SQLite gave back."""
    fields = {name: values[name] for name in table.columns}
    for name, kind in table.columns.items():
        if kind.startswith("REAL"):
            fields[name] = float(fields[name])
        if name == "spans":
            fields[name] = json.loads(fields[name])
    return fields


def encode_float(value: float) -> float | str:
    """A float as SQLite can keep it.

    >>> encode_float(float("nan")), encode_float(float("-inf"))
    ('nan', -inf)
    """
    number = float(value)
    return "nan" if math.isnan(number) else number


def _encode_integer(name: str, value: Any) -> int:
    return operator.index(value)  # takes numpy's integers, which SQLite would store as bytes


def _encode_text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected text, got {value!r}")
    return value


def _encode_spans(name: str, value: Any) -> str:
    return json.dumps(dict(value), allow_nan=False)


ENCODERS: dict[str, Callable[[str, Any], Any]] = {
    "REAL": lambda name, value: encode_float(value),
    "INTEGER": _encode_integer,
    "TEXT": _encode_text,
}
