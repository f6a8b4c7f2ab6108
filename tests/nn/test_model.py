"""Loading: what cannot be computed exactly is refused, with the folder's name."""

from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import CohereConfig, CohereForCausalLM

from support import save_model
from surefoot.nn.attention import PackedLayout
from surefoot.nn.model import PackedInputs, enable_checkpointing, load_model
from surefoot.types.errors import ModelError

CPU = torch.device("cpu")


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="nowhere"):
        load_model(str(tmp_path / "nowhere"), CPU)


def test_missing_weights_are_refused_not_invented(tmp_path: Path) -> None:
    file = save_model(tmp_path) / "model.safetensors"
    tensors = load_file(file)
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, file, metadata={"format": "pt"})
    with pytest.raises(ModelError, match="up_proj"):
        load_model(str(tmp_path), CPU)


def test_a_head_that_scales_its_logits_is_refused(tmp_path: Path) -> None:
    config = CohereConfig(
        vocab_size=31,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        logit_scale=0.25,
    )
    CohereForCausalLM(config).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="logits"):
        load_model(str(tmp_path), CPU)


SMALL = {"vocab_size": 31, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
ROPE = {"rope_theta": 1e4, "factor": 2.0}


@pytest.mark.parametrize(
    "config",
    [
        transformers.MistralConfig(**SMALL, num_key_value_heads=2, sliding_window=4),  # a window
        transformers.Gemma2Config(**SMALL, num_key_value_heads=2, head_dim=8),  # a soft cap
        transformers.BloomConfig(vocab_size=31, hidden_size=16, n_layer=2, n_head=2),  # attention of its own
        transformers.MambaConfig(vocab_size=31, hidden_size=16, num_hidden_layers=2, state_size=4),  # no attention
        transformers.Lfm2Config(
            **SMALL, num_key_value_heads=2, layer_types=["conv", "full_attention"]
        ),  # convolutions beside attention
        transformers.FalconConfig(vocab_size=31, hidden_size=16, num_hidden_layers=2, num_attention_heads=2),
        transformers.LlamaConfig(**SMALL, rope_parameters={"rope_type": "dynamic", **ROPE}),  # follows the longest
    ],
    ids=lambda config: config.model_type,
)
def test_what_would_be_computed_wrong_is_refused(tmp_path: Path, config: transformers.PretrainedConfig) -> None:
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=str(tmp_path)):
        load_model(str(tmp_path), CPU)


@pytest.mark.parametrize("damage", ["truncated", "empty", "no weights", "no architecture"])
def test_a_damaged_folder_is_one_line(tmp_path: Path, damage: str) -> None:
    file = save_model(tmp_path) / "model.safetensors"
    if damage == "no weights":
        file.unlink()
    elif damage == "no architecture":
        (tmp_path / "config.json").write_text('{"model_type": "unheard_of"}', encoding="utf8")
    else:
        file.write_bytes(file.read_bytes()[: 500 if damage == "truncated" else 0])
    with pytest.raises(ModelError) as caught:
        load_model(str(tmp_path), CPU)
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)


def test_checkpointing_turns_no_dropout_on(tmp_path: Path) -> None:
    """OPT's layers drop by `self.training`, which checkpointing needs to be on."""
    config = transformers.OPTConfig(
        vocab_size=31,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        ffn_dim=32,
        dropout=0.5,
        word_embed_proj_dim=16,
    )
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    ids = torch.arange(3, 15)
    inputs = PackedInputs(ids, torch.arange(12), PackedLayout([12], CPU), torch.arange(11), ids[1:])
    plain, checkpointed = load_model(str(tmp_path), CPU), load_model(str(tmp_path), CPU)
    enable_checkpointing(checkpointed)
    assert torch.equal(plain(inputs, 1.0, 64)[0], checkpointed(inputs, 1.0, 64)[0])


def test_checkpointing_changes_no_gradient(model_folder: Path) -> None:
    ids = torch.arange(3, 15)
    inputs = PackedInputs(ids, torch.arange(12), PackedLayout([12], CPU), torch.arange(11), ids[1:])
    gradients = []
    for checkpointing in (False, True):
        model = load_model(str(model_folder), CPU)
        if checkpointing:
            enable_checkpointing(model)
        model(inputs, 1.0, 64)[0].sum().backward()
        gradients.append([p.grad for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))
