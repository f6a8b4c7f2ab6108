"""Models of known shapes with random weights, made on the device: a benchmark needs no files."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from surefoot.config.schema import PrecisionConfig
from surefoot.nn import attention
from surefoot.nn.model import CausalLM
from surefoot.train.roles import Role
from surefoot.train.shard import DTYPES, World, shard
from surefoot.types.errors import UsageError

if TYPE_CHECKING:
    from transformers import PretrainedConfig


@dataclass(frozen=True, slots=True)
class Shape:
    """Embedding and head are one matrix in all of them."""

    architecture: str  # transformers' model_type
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    rope_theta: float
    norm_eps: float
    positions: int


SHAPES = {
    "tiny": Shape("llama", 32, 2, 4, 2, 8, 64, 64, 1e4, 1e-6, 4096),
    "135m": Shape("llama", 576, 30, 9, 3, 64, 1536, 49152, 1e5, 1e-5, 8192),  # SmolLM2-135M
    "0.6b": Shape("qwen3", 1024, 28, 16, 8, 128, 3072, 151936, 1e6, 1e-6, 40960),  # Qwen3-0.6B
}


def pick_world(device: str) -> World:
    """One rank on `device`, where "auto" is cuda if there is one. UsageError for "cuda" where there is none."""
    there = torch.cuda.is_available()
    if device == "cuda" and not there:
        raise UsageError(f"--device cuda: torch {torch.__version__} sees no CUDA device here")
    return World(0, 1, torch.device("cuda", 0) if there and device != "cpu" else torch.device("cpu"))


def make_policy(shape: Shape, world: World, precision: PrecisionConfig, *, seed: int = 0, spread: float = 1.0) -> Role:
    """A policy in fp32 (fp64 for reference runs), as `load_policy` leaves it. Same seed and device, same weights.

    spread: standard deviation of a position's logits, set by the final norm's weight. At 1 the next token is close to
    uniform; at 4 a vocabulary of 151,936 has an entropy of about 12 - 4^2/2 = 4 nats, as a language model may have.
    """
    compute = DTYPES[precision.compute]
    attention.install()
    dtype = torch.promote_types(compute, torch.float32)
    cuda = [world.device] if world.device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda), world.device:
        torch.manual_seed(seed)
        hf = _build(_config(shape), dtype)
    with torch.no_grad():
        hf.base_model.norm.weight.fill_(spread)
    model = CausalLM(hf).eval()
    return Role("policy", shard(model, world, compute), world, model.token_costs)


def _build(config: "PretrainedConfig", dtype: torch.dtype) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=attention.NAME)


def _config(shape: Shape) -> "PretrainedConfig":
    """Weights of deviation hidden**-0.5: each layer outweighs the embedding, so no token merely repeats itself."""
    from transformers import AutoConfig

    return AutoConfig.for_model(
        shape.architecture,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        intermediate_size=shape.intermediate,
        vocab_size=shape.vocabulary,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_theta},
        rms_norm_eps=shape.norm_eps,
        max_position_embeddings=shape.positions,
        initializer_range=shape.hidden**-0.5,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
