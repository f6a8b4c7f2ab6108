"""A checkpoint as a Hugging Face model folder, which is proved to hold the trained weights before it is there.

    masters --digest: the manifest's--> rounded, if asked --> a folder beside DIR --loaded back: same digest--> DIR

Everything but the weights comes as it is from the folder the policy was loaded from: a configuration or tokenizer that
is read and written again says the same in newer words, which other programs may not know.
"""

import json
import os
import shutil
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import torch

from surefoot.data.chat import eos_ids, load_tokenizer
from surefoot.interop.masters import load_masters
from surefoot.nn.digest import combined_digest, tensor_digest
from surefoot.nn.model import CausalLM, first_line, load_model
from surefoot.observe.durable import sync_folder, write_durably
from surefoot.train.checkpoint import saved_tensors
from surefoot.train.find import locate_checkpoint
from surefoot.train.manifest import read_manifest
from surefoot.train.shard import DTYPES
from surefoot.types.errors import CheckpointError, UsageError

TOKENIZER_FILES = (  # patterns; that none is missing is proved by loading the copy
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab*",
    "merges*",
    "*.model",
    "*.tiktoken",
    "tekken.json",
    "chat_template*",
    "additional_chat_templates",
)
DTYPE_KEYS = ("dtype", "torch_dtype")  # newer and older spelling
PROBE = "a B\n 12 é"


@dataclass(frozen=True, slots=True)
class Export:
    path: Path
    checkpoint: Path
    parameters: int
    bytes: int  # of all files
    digest: str  # of the masters, as in the checkpoint's manifest


def export_checkpoint(
    checkpoint: str | Path,
    out: str | Path,
    *,
    model: str | Path = "",
    dtype: str = "",
    say: Callable[[str], None] = lambda line: None,
) -> Export:
    """Write the policy of a checkpoint as a model folder into `out`, which must be empty or not there.

    checkpoint: a step's folder, a run's, or the one a run keeps its checkpoints in; of these the newest complete one.
    model: the folder the policy was loaded from; "" = as the run's config.toml says. dtype: "fp32", "bf16" or "fp16";
    "" = as the masters were saved, bit for bit. say: is told what goes on, a line each.

    Errors: UsageError where an argument does not fit; CheckpointError for a damaged checkpoint or a folder that cannot
    be written. `out` is then as it was.
    """
    target = Path(out).resolve()
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise UsageError(f"{out}: exists and is not an empty folder")
    folder, ignored = locate_checkpoint(Path(checkpoint))
    for _, reason in ignored:
        say(f"ignored: {reason}")
    source = Path(model or _model_of_run(folder))
    say(f"{folder}: weights; {source}: architecture and tokenizer")
    tokenizer = load_tokenizer(source)
    with _written_beside(target) as beside:
        policy = _load_trained(folder, source)
        digest, parameters = _digest(policy, None), sum(param.numel() for param in policy.parameters())
        if digest != read_manifest(folder).weights_digest:
            raise CheckpointError(f"{folder}: its weights are not those its manifest speaks of")
        if dtype:
            _round(policy, dtype)
        say(f"{parameters:,} parameters are the trained ones; writing them")
        _write(beside, policy, source, tokenizer)
        written = _digest(policy, None)
        del policy  # loading back needs the room
        _prove(beside, written, DTYPES[dtype] if dtype else None, tokenizer)
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    return Export(Path(out), folder, parameters, size, digest)


def _model_of_run(checkpoint: Path) -> str:
    """`model.path` of the run whose checkpoint it is."""
    file = checkpoint.resolve().parent.parent / "config.toml"
    try:
        path = tomllib.loads(file.read_text(encoding="utf8"))["model"]["path"]
    except FileNotFoundError as error:
        raise UsageError(f"{file}: missing, so name the model folder with --model") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{file}: model.path cannot be read ({error}): name the model folder with --model") from error
    if not Path(path).is_dir():
        raise UsageError(f"{file}: model.path = {path!r} is no folder, seen from here: name it with --model")
    return str(path)


def _load_trained(checkpoint: Path, source: Path) -> CausalLM:
    """The policy with the masters of the checkpoint as its parameters, named as the trainer names them."""
    saved = saved_tensors(checkpoint, "policy")
    if not saved:
        raise CheckpointError(f"{checkpoint}: holds no policy")
    dtype = reduce(torch.promote_types, (tensor.dtype for tensor in saved.values()))
    policy = load_model(str(source), torch.device("cpu"), dtype=dtype)
    load_masters(checkpoint, policy, source)
    return policy


@torch.no_grad()
def _round(policy: CausalLM, dtype: str) -> None:
    """Parameters alone, as in training; buffers stay as they are."""
    for name, param in policy.named_parameters():
        rounded = param.data.to(DTYPES[dtype])
        if not rounded.isfinite().all():
            raise UsageError(f"--dtype {dtype}: {name} holds numbers of up to {param.abs().max():g}, too large for it")
        param.data = rounded


def _digest(model: CausalLM, dtype: torch.dtype | None) -> str:
    """As `weights_digest` of a trainer, of parameters taken as `dtype`; None = as they are."""
    return combined_digest((name, tensor_digest(param.to(dtype=dtype))) for name, param in model.named_parameters())


def _write(folder: Path, policy: CausalLM, source: Path, tokenizer: Any) -> None:
    from safetensors import SafetensorError
    from transformers import GenerationConfig

    generation = _generation_config(source, policy, tokenizer)
    policy.hf.generation_config = GenerationConfig()  # type: ignore[no-untyped-call]  # 5.17 refuses many models' own
    try:
        policy.hf.save_pretrained(folder)
    except SafetensorError as error:
        raise CheckpointError(f"{folder}: the weights cannot be written: {first_line(error)}") from error
    config = json.loads((source / "config.json").read_text(encoding="utf8"))
    dtype = str(policy.hf.dtype).removeprefix("torch.")
    _write_json(folder / "config.json", {"dtype": dtype} | _as_exported(config, dtype))
    _write_json(folder / "generation_config.json", generation)
    for pattern in TOKENIZER_FILES:
        for path in source.glob(pattern):
            (shutil.copytree if path.is_dir() else shutil.copyfile)(path, folder / path.name)


def _as_exported(config: dict[str, Any], dtype: str) -> dict[str, Any]:
    """A configuration whose weights are plain numbers of `dtype`.

    >>> _as_exported({"torch_dtype": "bfloat16", "quantization_config": {"bits": 8}, "layers": 2}, "float32")
    {'torch_dtype': 'float32', 'layers': 2}
    """
    kept = {key: value for key, value in config.items() if key != "quantization_config"}
    return {
        key: dtype if key in DTYPE_KEYS else _as_exported(value, dtype) if isinstance(value, dict) else value
        for key, value in kept.items()
    }


def _generation_config(source: Path, policy: CausalLM, tokenizer: Any) -> dict[str, Any]:
    """The folder's own, or the one its config implies, with every end token that ended an answer in training."""
    file = source / "generation_config.json"
    own: dict[str, Any] = (
        json.loads(file.read_text(encoding="utf8")) if file.is_file() else policy.hf.generation_config.to_diff_dict()
    )
    ends = sorted(eos_ids(source, tokenizer))
    return own | ({"eos_token_id": ends[0] if len(ends) == 1 else ends} if ends else {})


def _write_json(path: Path, content: dict[str, Any]) -> None:
    write_durably(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


def _prove(folder: Path, digest: str, dtype: torch.dtype | None, tokenizer: Any) -> None:
    """What others will load is what was trained. `dtype`: asked for, where a model keeps some parameters wider."""
    from transformers import AutoModelForCausalLM

    loaded = CausalLM(AutoModelForCausalLM.from_pretrained(folder, dtype="auto", local_files_only=True))
    if _digest(loaded, dtype) != digest:
        raise CheckpointError(f"{folder}: loaded back, its weights are not those that were written")
    copied, own = _behaviour(load_tokenizer(folder)), _behaviour(tokenizer)
    for what, ours in own.items():
        if copied[what] != ours:
            raise CheckpointError(f"{folder}: loaded back, its tokenizer has another {what}")


def _behaviour(tokenizer: Any) -> dict[str, Any]:
    return {
        "vocabulary": tokenizer.get_vocab(),
        "chat template": tokenizer.chat_template,
        "set of special tokens": tokenizer.special_tokens_map,
        "way to encode": tokenizer(PROBE).input_ids,
    }


@contextmanager
def _written_beside(target: Path) -> Iterator[Path]:
    """A new folder that becomes `target` in one rename after the block, and goes where the block fails."""
    beside = target.with_name(f".{target.name}.tmp")
    if beside.exists():
        shutil.rmtree(beside)
    beside.mkdir(parents=True)
    try:
        yield beside
        for path in (*beside.rglob("*"), beside):
            sync_folder(path)  # a file is forced to disk in the same way
        os.replace(beside, target)
    except BaseException:
        shutil.rmtree(beside)
        raise
    sync_folder(target.parent)
