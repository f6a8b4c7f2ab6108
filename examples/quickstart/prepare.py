"""Makes the quickstart's model and data from nothing: `python examples/quickstart/prepare.py [--seed N]`.

The task is to sort four digits. A two-layer Llama of 0.2M parameters is warmed up on demonstrations of which most are
wrong, as scraped data may be: their answers are the right digits in a random order. It comes out knowing how to sort
and doing it about one time in three, which is where reinforcement learning starts.

Writes models/quickstart/{model folder, train.jsonl, heldout.jsonl}.
"""

import argparse
import itertools
import json
import random
import time
from pathlib import Path

import torch
from rich.progress import track
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIAL = ["<pad>", "<bos>", "<eos>"]
LETTERS = "sort 0123456789=>"
DIGITS = 4
HELDOUT = 256
RIGHT_SHARE = 0.4  # of the demonstrations
STEPS, BATCH, LR = 350, 64, 4e-3


def build_tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *dict.fromkeys(LETTERS)])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", vocabulary["<bos>"])]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>")


def build_rows(rng: random.Random) -> list[dict[str, str]]:
    """Every string of four different digits, once, in a random order: prompt and right answer."""
    numbers = ["".join(p) for p in itertools.permutations("0123456789", DIGITS)]
    rng.shuffle(numbers)
    return [{"id": n, "prompt": f"sort {n}=>", "label": "".join(sorted(n))} for n in numbers]


def demonstration(row: dict[str, str], rng: random.Random) -> str:
    if rng.random() < RIGHT_SHARE:
        return row["label"]
    return "".join(rng.sample(row["label"], DIGITS))


def warm_up(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, rows: list[dict[str, str]], seed: int) -> None:
    """Supervised steps on the answers alone, with a learning rate that falls to zero."""
    rng = random.Random(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LR, total_steps=STEPS)
    prompt_length = len(tokenizer(rows[0]["prompt"]).input_ids)
    for _ in track(range(STEPS), description="warm-up"):
        texts = [row["prompt"] + demonstration(row, rng) + "<eos>" for row in rng.choices(rows, k=BATCH)]
        ids = torch.tensor(tokenizer(texts).input_ids)
        labels = ids.clone()
        labels[:, :prompt_length] = -100
        loss = model(input_ids=ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("models/quickstart"))
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    start = time.monotonic()
    tokenizer = build_tokenizer()
    rows = build_rows(random.Random(arguments.seed))
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config)
    warm_up(model, tokenizer, rows[HELDOUT:], arguments.seed)
    arguments.out.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(arguments.out)
    tokenizer.save_pretrained(arguments.out)
    for name, part in (("heldout", rows[:HELDOUT]), ("train", rows[HELDOUT:])):
        text = "".join(json.dumps(row) + "\n" for row in part)
        (arguments.out / f"{name}.jsonl").write_text(text, encoding="utf8")
    size = sum(p.numel() for p in model.parameters())
    print(f"{arguments.out}: {size:,} parameters, {len(rows)} prompts, {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
