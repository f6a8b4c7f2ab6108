"""A causal language model as the trainer and the in-process engine use it: hidden states, then log-probs.

The architecture is transformers' own; this file loads it with our attention, proves once that hidden states times
the head are that model's logits, and never materialises logits for tokens nobody asked for.
Letters: B rows, T tokens of a row, N chosen tokens, E hidden width, V vocabulary.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from surefoot.nn import attention
from surefoot.nn.attention import AttentionLayout, PackedLayout
from surefoot.nn.logprobs import token_logprobs
from surefoot.types.errors import ModelError

PROBE_TOKENS = 8


@dataclass(frozen=True, slots=True, eq=False)
class PackedInputs:
    """What a forward pass over packed samples needs; `rows_N` are the positions whose labels are scored."""

    input_ids_T: Tensor
    positions_T: Tensor
    layout: PackedLayout
    rows_N: Tensor
    labels_N: Tensor


class CausalLM(nn.Module):
    """`hf` is a transformers causal model that was loaded with our attention."""

    def __init__(self, hf: Any) -> None:
        super().__init__()
        self.hf = hf

    @property
    def head_weight_VE(self) -> Tensor:
        weight: Tensor = self.hf.get_output_embeddings().weight
        return weight

    @property
    def token_costs(self) -> tuple[float, float]:
        """FLOPs of a training step for each token, and for each squared token of a sample's length (causal)."""
        shape = self.hf.config.get_text_config()
        head_dim = shape.to_dict().get("head_dim") or shape.hidden_size // shape.num_attention_heads
        quadratic = 6.0 * shape.num_hidden_layers * shape.num_attention_heads * head_dim
        return 6.0 * sum(param.numel() for param in self.parameters()), quadratic

    @property
    def vocabulary(self) -> int:
        return int(self.hf.get_input_embeddings().weight.shape[0])

    @property
    def max_positions(self) -> int | None:
        """Longest sequence the model is made for; None where it does not say."""
        config = self.hf.config.get_text_config()
        return int(config.max_position_embeddings) if hasattr(config, "max_position_embeddings") else None

    def hidden(self, input_ids_BT: Tensor, positions_BT: Tensor, layout: AttentionLayout) -> Tensor:
        """Last hidden states [B, T, E], after the final norm."""
        out = self.hf.base_model(
            input_ids=input_ids_BT, position_ids=positions_BT, use_cache=False, attention_layout=layout
        )
        states: Tensor = out.last_hidden_state
        return states

    def forward(self, inputs: PackedInputs, temperature: float, chunk: int) -> tuple[Tensor, Tensor]:
        """(logprobs [N], entropy [N]) of `labels_N` at `rows_N`. Other rows never reach the head."""
        states_TE = self.hidden(inputs.input_ids_T[None], inputs.positions_T[None], inputs.layout)[0]
        chosen_NE = states_TE.index_select(0, inputs.rows_N)
        return token_logprobs(chosen_NE, self.head_weight_VE, inputs.labels_N, temperature=temperature, chunk=chunk)


def load_model(path: str, device: torch.device, *, dtype: torch.dtype = torch.float32) -> CausalLM:
    """The model in folder `path`. Raises `ModelError` where weights are missing or log-probs would be wrong."""
    from transformers import AutoModelForCausalLM

    if not (Path(path) / "config.json").is_file():
        raise ModelError(f"model.path: {path} is not a model folder (it has no config.json)")
    attention.install()
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            path, dtype=dtype, attn_implementation=attention.NAME, local_files_only=True, output_loading_info=True
        )
    except Exception as error:  # whatever a broken folder makes the loader raise
        raise ModelError(f"model.path: {path} cannot be loaded: {first_line(error)}") from error
    hf, loading = loaded
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if loading[kind]:
            raise ModelError(f"{path}: {kind.replace('_', ' ')} in the weights: {sorted(map(str, loading[kind]))[:5]}")
    model = CausalLM(hf.to(device)).eval()
    refuse_nonfinite(model, path)
    refuse_by_config(model, path)
    try:
        prove_head(model, path)
        prove_packing(model, path)
    except ModelError:
        raise
    except Exception as error:  # an architecture that goes its own way raises what it likes
        raise ModelError(f"{path}: {type(hf).__name__} is not supported: {first_line(error)}") from error
    return model


def first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def refuse_nonfinite(model: CausalLM, name: str) -> None:
    """Raises `ModelError` naming the weights that hold inf or NaN, also such as `dtype` has no room for."""
    bad = [weight for weight, param in model.hf.named_parameters() if not param.isfinite().all()]
    if bad:
        kind = str(model.head_weight_VE.dtype).removeprefix("torch.")
        raise ModelError(f"{name}: {len(bad)} weights hold inf or NaN in {kind}: {', '.join(bad[:4])}")


def refuse_by_config(model: CausalLM, name: str) -> None:
    """Raises `ModelError` for what a short proof cannot show: layers that carry a state from token to token, and
    rotary embeddings whose frequencies follow the longest position of the call.
    """
    config = model.hf.config.get_text_config().to_dict()
    stateful = set(config.get("layer_types") or ()) - {"full_attention", "sliding_attention"}
    if stateful:
        raise ModelError(f"{name}: layers of type {', '.join(sorted(stateful))} mix packed samples; unsupported")
    kind = (config.get("rope_parameters") or {}).get("rope_type")
    if kind in ("dynamic", "longrope"):
        raise ModelError(f"{name}: rope_type {kind!r} depends on the longest sample of a batch; unsupported")


@torch.no_grad()
def prove_packing(model: CausalLM, name: str) -> None:
    """Raises `ModelError` unless two packed samples are each as if alone.

    Catches what mixes tokens outside the attention interface: state-space layers, convolutions, attention of its own.
    """
    device, lengths = model.head_weight_VE.device, (PROBE_TOKENS, PROBE_TOKENS - 3)
    ids_T = torch.arange(sum(lengths), device=device) % model.head_weight_VE.shape[0]
    positions_T = torch.cat([torch.arange(length, device=device) for length in lengths])
    packed = model.hidden(ids_T[None], positions_T[None], PackedLayout(lengths, device))[0].split(lengths)
    for ids_L, positions_L, together_LE in zip(ids_T.split(lengths), positions_T.split(lengths), packed, strict=True):
        alone_LE = model.hidden(ids_L[None], positions_L[None], PackedLayout([len(ids_L)], device))[0]
        gap = ((alone_LE - together_LE).abs().max() / alone_LE.abs().max().clamp(min=1e-6)).item()
        if not gap < 1e-3:
            raise ModelError(f"{name}: {type(model.hf).__name__} mixes packed samples (gap {gap:.2g}); unsupported")


@torch.no_grad()
def prove_head(model: CausalLM, name: str) -> None:
    """Raises `ModelError` unless hidden states times the head are the model's own logits.

    Catches what a head may do besides: a bias, a soft cap, a scale.
    """
    device = model.head_weight_VE.device
    ids_1T = torch.arange(PROBE_TOKENS, device=device)[None] % model.head_weight_VE.shape[0]
    positions_1T = torch.arange(PROBE_TOKENS, device=device)[None]
    layout = PackedLayout([PROBE_TOKENS], device)
    theirs = model.hf(input_ids=ids_1T, position_ids=positions_1T, use_cache=False, attention_layout=layout).logits
    ours = model.hidden(ids_1T, positions_1T, layout) @ model.head_weight_VE.T
    scale = theirs.abs().max().clamp(min=1.0)
    gap = ((theirs - ours).abs().max() / scale).item()
    if not gap < 1e-3:
        kind = type(model.hf).__name__
        raise ModelError(f"{name}: {kind} does more to its logits than the head's product (gap {gap:.2g}); unsupported")


def enable_checkpointing(model: CausalLM) -> None:
    """Recompute each layer in backward. Dropout stays off: only the layers' own switch is set to training."""
    from transformers.modeling_layers import GradientCheckpointingLayer

    hf = model.hf  # the older name is deprecated, the newer one is not in transformers 5.17
    enable = hf.activation_checkpointing_enable if hasattr(hf, "activation_checkpointing_enable") else None
    (enable or hf.gradient_checkpointing_enable)()
    for module in model.modules():
        silence_dropout(module)
        if isinstance(module, GradientCheckpointingLayer):
            module.training = True


def silence_dropout(module: nn.Module) -> None:
    """A layer in training mode drops by its own numbers, under whatever name it keeps them."""
    if isinstance(module, nn.Dropout):
        module.p = 0.0
    for name, value in vars(module).items():
        if isinstance(value, float) and ("dropout" in name or "pdrop" in name):
            setattr(module, name, 0.0)
