"""Loading: what cannot be computed exactly is refused, with the folder's name."""

from pathlib import Path

import pytest
import torch
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
