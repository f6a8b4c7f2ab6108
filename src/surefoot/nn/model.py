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
        quadratic = 6.0 * shape.num_hidden_layers * shape.hidden_size
        return 6.0 * sum(param.numel() for param in self.parameters()), quadratic

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
    loaded: Any = AutoModelForCausalLM.from_pretrained(
        path, dtype=dtype, attn_implementation=attention.NAME, local_files_only=True, output_loading_info=True
    )
    hf, loading = loaded
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if loading[kind]:
            raise ModelError(f"{path}: {kind.replace('_', ' ')} in the weights: {sorted(map(str, loading[kind]))[:5]}")
    model = CausalLM(hf.to(device)).eval()
    prove_head(model, path)
    return model


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
        if isinstance(module, GradientCheckpointingLayer):
            module.training = True
