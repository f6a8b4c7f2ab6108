"""A whole run in fp16 that overflows again and again, and its books: no sample lost, every prompt's fate known.

Nothing is injected: the loss scale starts far above what fp16 holds and grows after every second clean step, so that
gradients overflow until the scale has fallen, at the start and again and again after it. Rollouts are of random tokens
(`debug.mode = "fake_data"`), weights are random in a known shape.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import tomli_w
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from surefoot.bench.shapes import SHAPES, make_policy, pick_world
from surefoot.cli.commands.ledger import format_table
from surefoot.cli.main import run_command
from surefoot.config.schema import PrecisionConfig
from surefoot.observe.ledger_view import LedgerView


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    with tempfile.TemporaryDirectory(prefix="surefoot-overflows-") as folder:
        model, run = Path(folder) / "model", Path(folder) / "run"
        save_model(model, options.shape, options.device)
        (Path(folder) / "run.toml").write_text(tomli_w.dumps(run_file(options, model, run)), encoding="utf8")
        code = run_command(["train", f"{folder}/run.toml"])
        return code or report(run, options)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shape", choices=sorted(SHAPES), default="tiny")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--prompts", type=int, default=8, help="a step")
    parser.add_argument("--group-size", type=int, default=8)
    parser.add_argument("--init-scale", type=float, default=2.0**40)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    return parser.parse_args(arguments)


def save_model(folder: Path, shape: str, device: str) -> None:
    """Weights, and a tokenizer that nothing will ask for a text."""
    policy = make_policy(SHAPES[shape], pick_world(device), PrecisionConfig())
    policy.model.hf.save_pretrained(folder)
    tokenizer = Tokenizer(models.WordLevel({"<end>": 0, "word": 1}, unk_token="<end>"))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", pad_token="<end>").save_pretrained(folder)


def run_file(options: argparse.Namespace, model: Path, run: Path) -> dict[str, object]:
    lengths = [{"prompt": 32, "completion": 96}, {"prompt": 64, "completion": 448}, {"prompt": 16, "completion": 1}]
    return {
        "model": {"path": str(model), "device": options.device},
        "data": {"path": "none.jsonl"},
        "env": {"rewards": [{"name": "exact_match"}]},
        "rollout": {"prompts_per_step": options.prompts, "group_size": options.group_size},
        "train": {"max_tokens": 8192},
        "precision": {
            "compute": "fp16",
            "init_scale": options.init_scale,
            "max_scale": options.init_scale,
            "growth_interval": 2,
        },
        "loop": {"steps": options.steps},
        "observe": {"run_dir": str(run), "save_rollouts": False, "show_samples": 0},
        "debug": {"mode": "fake_data", "lengths": lengths},
    }


def report(run: Path, options: argparse.Namespace) -> int:
    """The books. 1 where they do not balance, a sample was lost, or nothing overflowed."""
    with LedgerView.read(run / "ledger.sqlite") as ledger:
        _, steps = ledger.query(
            "SELECT step, count(*), max(loss_scale), min(loss_scale), sum(reason = 'overflow'), sum(reason = 'ok') "
            "FROM steps WHERE superseded = 0 GROUP BY step"
        )
        _, [(samples, trained)] = ledger.query("SELECT count(*), sum(fate = 'trained') FROM samples")
        balance = ledger.balance()
    print(format_table(("step", "attempts", "highest scale", "lowest", "overflows", "applied"), steps))
    overflows, applied = sum(row[4] for row in steps), sum(row[5] for row in steps)
    print(
        f"{options.shape}: {overflows} overflows in {len(steps)} steps, {applied} applied; "
        f"prompts: {balance.drawn} drawn, {balance.trained} trained, {balance.in_flight} in flight, "
        f"{balance.unaccounted} unaccounted; samples: {samples} made, {trained} trained"
    )
    made = options.steps * options.prompts
    whole = balance.drawn == balance.trained == made and samples == trained == made * options.group_size
    return 0 if whole and overflows and applied == options.steps else 1


if __name__ == "__main__":
    sys.exit(main())
