"""What a run will need of a device's memory, from file headers alone. An estimate: it says what it assumes.

Letters: T tokens of a micro-batch.
"""

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefoot.config.schema import RunConfig
from surefoot.types.errors import ModelError

BYTES = {"fp64": 8, "fp32": 4, "bf16": 2, "fp16": 2}
LONGEST_HEADER = 100_000_000  # bytes; safetensors' own limit


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What of a model decides its memory."""

    parameters: int
    layers: int
    hidden: int
    intermediate: int
    kv_width: int  # key-value heads x head size
    vocabulary: int


@dataclass(frozen=True, slots=True)
class Item:
    name: str
    bytes: int
    assumption: str


def read_shape(folder: Path) -> ModelShape:
    """From config.json and the safetensors headers. ModelError where one is missing or unreadable."""
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read: {error}") from error
    hidden, heads = _first(config, path, "hidden_size", "n_embd"), _first(config, path, "num_attention_heads", "n_head")
    head = int(config.get("head_dim") or hidden // heads)
    return ModelShape(
        parameters=count_parameters(folder),
        layers=_first(config, path, "num_hidden_layers", "n_layer"),
        hidden=hidden,
        intermediate=int(config.get("intermediate_size") or config.get("n_inner") or 4 * hidden),
        kv_width=int(config.get("num_key_value_heads") or heads) * head,
        vocabulary=_first(config, path, "vocab_size"),
    )


def _first(config: Mapping[str, Any], path: Path, *names: str) -> int:
    """The value under the name that this architecture uses."""
    for name in names:
        if isinstance(config.get(name), int):
            return int(config[name])
    raise ModelError(f"{path}: has none of {', '.join(names)}")


def count_parameters(folder: Path) -> int:
    """Elements of all tensors in the folder's safetensors files; tied weights are stored, and counted, once."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ModelError(f"{folder}: holds no *.safetensors")
    return sum(math.prod(entry["shape"]) for file in files for entry in _header(file).values())


def memory_items(shape: ModelShape, config: RunConfig, ranks: int) -> list[Item]:
    """The parts of one rank's memory, in bytes."""
    wide = 8 if config.precision.compute == "fp64" else 4  # masters, gradients, moments
    narrow = BYTES[config.precision.compute]
    share = math.ceil(shape.parameters / ranks)
    over = f"sharded over {ranks} ranks" if ranks > 1 else "on one rank"
    items = [
        Item("master weights", share * wide, f"{shape.parameters:,} parameters x {wide} bytes, {over}"),
        Item("gradients", share * wide, f"{wide} bytes a parameter, {over}"),
        Item("optimizer state", 2 * share * wide, f"{config.optim.name}: two moments of {wide} bytes, {over}"),
    ]
    if narrow < wide or ranks > 1:
        items.append(Item("compute weights", shape.parameters * narrow, "a whole copy on each rank, also for sampling"))
    if config.algo.kl_coef > 0 or config.algo.kl_metric:
        items.append(Item("reference model", math.ceil(shape.parameters * narrow / ranks), f"{narrow} bytes, {over}"))
    return [*items, _activations(shape, config, narrow), _logits(shape, config), _kv_cache(shape, config, narrow)]


def _activations(shape: ModelShape, config: RunConfig, narrow: int) -> Item:
    tokens_T = config.train.max_tokens
    layer = 8 * shape.hidden + 2 * shape.kv_width + 4 * shape.intermediate
    if config.train.gradient_checkpointing:
        kept = shape.layers * shape.hidden + layer
        what = "one input a layer, one layer recomputed at a time"
    else:
        kept = shape.layers * layer
        what = "what each layer keeps for backward, attention without its score matrix"
    return Item("activations", tokens_T * kept * narrow, f"{tokens_T} tokens a micro-batch; {what}")


def _logits(shape: ModelShape, config: RunConfig) -> Item:
    chunk = min(config.train.logprob_chunk, config.train.max_tokens)
    return Item("logits", 2 * chunk * shape.vocabulary * 4, f"{chunk} tokens at once, fp32, with their gradient")


def _kv_cache(shape: ModelShape, config: RunConfig, narrow: int) -> Item:
    rollout = config.rollout
    slots = min(rollout.max_slots, rollout.prompts_per_step * rollout.group_size)
    length = rollout.max_prompt_tokens + rollout.max_new_tokens
    size = slots * length * shape.layers * 2 * shape.kv_width * narrow
    return Item("KV cache", size, f"{slots} rollouts of {length} tokens, all at full length")


def show_bytes(size: int) -> str:
    """A size for people.

    >>> show_bytes(1536), show_bytes(3 * 2**30)
    ('1.5 KiB', '3.0 GiB')
    """
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f} {unit}"


def _header(path: Path) -> Mapping[str, Any]:
    """The tensors of a safetensors file: 8 bytes of length, little-endian, then JSON."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > LONGEST_HEADER:
                raise ModelError(f"{path}: not a safetensors file")
            header = json.loads(file.read(length))
    except (OSError, ValueError, struct.error) as error:
        raise ModelError(f"{path}: not a safetensors file: {error}") from error
    return {name: entry for name, entry in header.items() if name != "__metadata__"}
