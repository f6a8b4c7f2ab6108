"""Models, samples and whole small runs that many tests make."""

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from letters import LETTERS, letter_reward
from surefoot.envs.rewards import BUILTINS, Builtin
from surefoot.types.rollout import Sample, SampleRef

VOCAB = 31
TESTS = Path(__file__).parent


def child_environment() -> dict[str, str]:
    """For a test's own process: one thread, these modules, and the very package that the tests run on."""
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}


def add_letters() -> None:
    """`name = "letters"` in a run file is `letter_reward` as a built-in: no worker processes where none are needed."""
    BUILTINS["letters"] = Builtin(letter_reward, lambda label, metadata: None, None, "inline")


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


def save_tokenizer(folder: Path) -> None:
    """A token a letter, `#` for padding and the end, no tokens that are added."""
    vocabulary = {token: i for i, token in enumerate(["#", *LETTERS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="#"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="#", eos_token="#", unk_token="#")
    fast.save_pretrained(folder)


def save_run(folder: Path, *, rows: int = 12, text: str = "", **model: object) -> Path:
    """A whole small run: model, tokenizer, prompts and run.toml, to which `text` is added. Paths are absolute."""
    save_model(folder / "model", **model)  # type: ignore[arg-type]
    save_tokenizer(folder / "model")
    lines = [json.dumps({"id": f"p{i}", "prompt": LETTERS[i % 20 : i % 20 + 1 + i % 5]}) for i in range(rows)]
    (folder / "prompts.jsonl").write_text("\n".join(lines) + "\n", encoding="utf8")
    sections: dict[str, dict[str, Any]] = {
        "model": {"path": str(folder / "model"), "device": "cpu"},
        "data": {"path": str(folder / "prompts.jsonl"), "label_key": ""},
        "rollout": {"prompts_per_step": 2, "group_size": 4, "max_new_tokens": 6, "max_prompt_tokens": 16},
        "train": {"max_tokens": 64},
        "optim": {"lr": 3e-3},
        "loop": {"steps": 6, "threads": 1},
        "checkpoint": {"every": 1},
        "observe": {"run_dir": str(folder / "run"), "show_samples": 0},
        "env": {"rewards": [{"name": "letters"}]},
    }
    for line in tomllib.loads(text).items():
        sections[line[0]] = {**sections.get(line[0], {}), **line[1]}
    (folder / "run.toml").write_text(tomli_w.dumps(sections), encoding="utf8")
    return folder / "run.toml"
