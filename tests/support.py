"""Models and samples that many tests make."""

from pathlib import Path

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from surefoot.types.rollout import Sample, SampleRef

VOCAB = 31


def save_model(folder: Path, *, kind: str = "llama", tied: bool = True, seed: int = 0, spread: float = 0.15) -> Path:
    """A two-layer model with weights wide enough that its log-probs differ from uniform."""
    torch.manual_seed(seed)
    if kind == "llama":
        config = LlamaConfig(
            vocab_size=VOCAB,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=512,
            tie_word_embeddings=tied,
            initializer_range=spread,
            bos_token_id=1,
            eos_token_id=2,
            pad_token_id=0,
        )
        model = LlamaForCausalLM(config)
    else:
        config = GPT2Config(
            vocab_size=VOCAB,
            n_positions=128,
            n_embd=16,
            n_layer=2,
            n_head=2,
            initializer_range=spread,
            bos_token_id=1,
            eos_token_id=2,
            tie_word_embeddings=tied,
        )
        model = GPT2LMHeadModel(config)
    model.save_pretrained(folder)
    return folder


def make_samples(lengths: list[tuple[int, int]], seed: int = 0) -> list[Sample]:
    """Random samples of (prompt, completion) lengths, one per group, with advantages of both signs."""
    rng = np.random.default_rng(seed)
    samples = []
    for number, (prompt, completion) in enumerate(lengths):
        length = prompt + completion
        mask = np.arange(length) >= prompt
        samples.append(
            Sample(
                ref=SampleRef(number, 0, 0),
                token_ids_L=rng.integers(3, VOCAB, length).astype(np.int32),
                loss_mask_L=mask,
                behavior_logprobs_L=np.where(mask, -rng.random(length) * 3, 0).astype(np.float32),
                versions_L=np.where(mask, 0, -1).astype(np.int32),
                advantages_L=np.where(mask, rng.normal(), 0).astype(np.float32),
            )
        )
    return samples
