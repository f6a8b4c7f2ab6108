"""How far the sampler's log-probs are from the trainer's in each precision, at the same weights and prompts.

For each precision the policy is loaded as a run loads it, the in-process engine samples through the path that a run
takes, and the trainer scores those very tokens, packed. Every token is scored with the weights it was sampled with, so
what is left of the gap is rounding: fp16 keeps 11 bits of a number, bf16 8 (compare arXiv 2510.26788).
"""

import argparse
import asyncio
import gc
import itertools
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch

from surefoot.algos.mismatch import mismatch_stats
from surefoot.bench.shapes import SHAPES, make_policy, pick_world
from surefoot.cli.commands.ledger import format_table
from surefoot.config.schema import AlgoConfig, OptimConfig, PrecisionConfig, TrainConfig
from surefoot.data import load_codec, read_prompts, samples_from_groups
from surefoot.engines.inprocess.engine import InProcessEngine
from surefoot.envs.rubric import Rubric
from surefoot.loop.collect import Collector
from surefoot.loop.seeds import derive_seed
from surefoot.loop.stop import Stop
from surefoot.observe.metrics import spell
from surefoot.train.masters import Masters
from surefoot.train.prepare import score
from surefoot.train.roles import Role, Roles, load_policy
from surefoot.train.shard import World
from surefoot.train.step import TrainerConfig
from surefoot.types.errors import SurefootError, UsageError
from surefoot.types.rollout import Draw, Group, IntArray, Message, Prompt, Sample, Sampling

FIGURES = ("mean", "p99", "max", "kl")
Precision = Literal["fp64", "fp32", "bf16", "fp16"]
NO_LABEL: Mapping[str, Any] = {"label": None, "metadata": {}}
VERSION = 0  # of the one policy there is


@dataclass(frozen=True, slots=True)
class Gap:
    """Of |trainer - sampler| over the sampled tokens, nats. `entropy`: nats a token, as the sampled log-probs tell."""

    precision: str
    tokens: int
    entropy: float
    mean: float
    p99: float
    max: float
    kl: float  # KL(sampler || trainer)
    peak_gib: float | None  # of device memory; None on the CPU


class NumbersCodec:
    """Prompts that are token ids already, written out; nothing is ever decoded and no id ends a generation."""

    eos_ids: frozenset[int] = frozenset()

    def encode(self, messages: Sequence[Message]) -> IntArray:
        return np.array(messages[0].content.split(), np.int32)

    def decode(self, token_ids: Sequence[int] | np.ndarray) -> str:
        return ""


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    try:
        refuse_impossible(options)
        gaps = [measure(options, precision) for precision in options.precisions]
    except SurefootError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    print(json.dumps(record(options, gaps), allow_nan=False) if options.json else report(options, gaps))
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    weights = parser.add_mutually_exclusive_group(required=True)
    weights.add_argument("--model", metavar="FOLDER", help="a Hugging Face model folder")
    weights.add_argument("--shape", choices=sorted(SHAPES), help="or random weights in this shape")
    parser.add_argument("--spread", type=float, default=4.0, help="--shape: standard deviation of the logits")
    parser.add_argument("--prompts", default="random", metavar="FILE", help='jsonl, or "random" token ids')
    parser.add_argument(
        "--prompt-tokens", type=positive, default=64, help="random: of a prompt; FILE: longer ones are left out"
    )
    parser.add_argument("--chat-template", action="store_true", help="FILE: apply the tokenizer's")
    parser.add_argument("--tokens", type=positive, default=65536, help="sampled ones, at least")
    parser.add_argument("--group-size", type=positive, default=8, help="rollouts a prompt")
    parser.add_argument("--max-new-tokens", type=positive, default=512)
    parser.add_argument("--max-slots", type=positive, default=128, help="rollouts decoded at once")
    parser.add_argument("--max-tokens", type=positive, default=8192, help="of a micro-batch of the trainer")
    parser.add_argument("--precisions", type=precisions, default="bf16,fp16,fp32", metavar="A,B,...")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--json", action="store_true", help="one JSON object, without a table")
    return parser.parse_args(arguments)


def positive(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return int(text)


def precisions(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := [name for name in names if name not in get_args(Precision)]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(get_args(Precision))}")
    return names


def refuse_impossible(options: argparse.Namespace) -> None:
    """UsageError, naming the option."""
    longest = options.prompt_tokens + options.max_new_tokens
    if longest > options.max_tokens + 1:
        raise UsageError(f"--max-tokens {options.max_tokens}: a rollout of {longest} tokens does not fit")
    if options.prompts != "random" and not options.model:
        raise UsageError(f"--prompts {options.prompts}: a file needs a tokenizer, so --model and not --shape")


def measure(options: argparse.Namespace, compute: Precision) -> Gap:
    """One precision from its own copy of the weights, which is given up afterwards."""
    world = pick_world(options.device)
    gc.collect()  # the precision before this one: its memory must not count here
    if torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats(world.device)
    policy = load(options, world, PrecisionConfig(compute=compute))
    samples = asyncio.run(sample(options, policy))
    sampler = [s.behavior_logprobs_L[s.loss_mask_L] for s in samples]
    scores = score(samples, Roles(policy, None), trainer_config(options, compute), VERSION)
    trainer = [scores.old[s.ref][s.loss_mask_L] for s in samples]
    stats = mismatch_stats(np.concatenate(trainer), np.concatenate(sampler))
    peak = torch.cuda.max_memory_allocated(world.device) / 2**30 if world.device.type == "cuda" else None
    drawn = np.concatenate(sampler).astype(np.float64)
    return Gap(compute, len(drawn), float(-drawn.mean()), stats.mean, stats.p99, stats.max, stats.kl, peak)


def load(options: argparse.Namespace, world: World, precision: PrecisionConfig) -> Role:
    """As a run does it: in fp32, then narrowed behind masters."""
    if options.model:
        policy = load_policy(options.model, world, precision)
    else:
        policy = make_policy(SHAPES[options.shape], world, precision, seed=options.seed, spread=options.spread)
    Masters(policy, precision.compute)
    return policy


def trainer_config(options: argparse.Namespace, compute: Precision) -> TrainerConfig:
    """Two updates a rollout batch make the trainer score in fp32 too, where it would take the sampler's word."""
    return TrainerConfig(
        train=TrainConfig(max_tokens=options.max_tokens, updates_per_rollout=2),
        algo=AlgoConfig(),
        optim=OptimConfig(),
        precision=PrecisionConfig(compute=compute),
        temperature=1.0,
        constant_length=options.max_new_tokens,
        total_updates=0,
    )


async def sample(options: argparse.Namespace, policy: Role) -> list[Sample]:
    """Rounds of prompts, no more than fill the slots, until enough tokens were sampled."""
    collector = build_collector(options, policy)
    draws, groups, left = prompts(options, policy.model.vocabulary), list[Group](), int(options.tokens)
    while left > 0:
        wanted = math.ceil(left / (options.group_size * options.max_new_tokens))
        fitting = max(1, options.max_slots // options.group_size)
        collected = await collector.collect(list(itertools.islice(draws, min(wanted, fitting))), lambda: None)
        if not collected.groups:
            raise UsageError(f"{options.prompts}: no prompt can be sampled: {next(iter(collected.dropped.values()))}")
        groups += collected.groups
        rollouts = [rollout for group in collected.groups for rollout in group.rollouts]
        left -= sum(len(turn.generation.token_ids_C) for rollout in rollouts for turn in rollout.turns)
    keys = [(group.id, index) for group in groups for index in range(len(group.rollouts))]
    return samples_from_groups(groups, dict.fromkeys(keys, 0.0))


def build_collector(options: argparse.Namespace, policy: Role) -> Collector:
    """As a run has it, over an engine that shares the policy's parameters; every reward is 0."""
    codec: Any = NumbersCodec()
    if options.prompts != "random":
        codec = load_codec(options.model, chat_template=options.chat_template)
    engine = InProcessEngine(
        policy.model, decode=codec.decode, eos_ids=codec.eos_ids, max_slots=options.max_slots, shared=True
    )
    engine.advance(VERSION)
    return Collector(
        codec=codec,
        generate=engine.generate,
        rubric=Rubric(()),
        world=policy.world,
        stop=Stop(),
        sampling=Sampling(1.0, options.max_new_tokens, ()),
        group_size=options.group_size,
        max_prompt_tokens=options.prompt_tokens,
        seed=derive_seed(options.seed, "rollout"),
    )


def prompts(options: argparse.Namespace, vocabulary: int) -> Iterator[Draw]:
    """Without end; the same for every precision."""
    if options.prompts == "random":
        random = np.random.default_rng(options.seed)
        for number in itertools.count():
            ids = " ".join(map(str, random.integers(0, vocabulary, options.prompt_tokens)))
            yield Draw(number, 0, number, Prompt(f"random:{number}", "", (Message("user", ids),), NO_LABEL))
    else:
        rows = read_prompts(Path(options.prompts), label_key="")
        for number in itertools.count():
            yield Draw(number, number // len(rows), number % len(rows), rows[number % len(rows)])


def ratios(gaps: Sequence[Gap]) -> dict[str, float]:
    """bf16 over fp16 of each figure; empty where one of them was not measured."""
    by_name = {gap.precision: asdict(gap) for gap in gaps}
    if not {"bf16", "fp16"} <= by_name.keys():
        return {}
    wide, narrow = by_name["bf16"], by_name["fp16"]
    return {name: wide[name] / narrow[name] if narrow[name] else math.inf for name in FIGURES}


def record(options: argparse.Namespace, gaps: Sequence[Gap]) -> dict[str, Any]:
    settings = vars(options) | {"torch": torch.__version__, "device": device_name(options)}
    rows = [
        {name: spell(value) if isinstance(value, float) else value for name, value in asdict(gap).items()}
        for gap in gaps
    ]
    compared = {name: spell(value) for name, value in ratios(gaps).items()}
    return {"benchmark": "precision_gap", "settings": settings, "gaps": rows, "bf16_over_fp16": compared}


def report(options: argparse.Namespace, gaps: Sequence[Gap]) -> str:
    names = ("precision", "tokens", "entropy", *FIGURES, "peak GiB")
    rows = [tuple(asdict(gap).values()) for gap in gaps]
    if compared := ratios(gaps):
        rows.append(("bf16 / fp16", None, None, *(compared[name] for name in FIGURES), None))
    where = f"{options.model or options.shape}, {device_name(options)}, torch {torch.__version__}"
    return f"{where}: |trainer - sampler|, nats\n{format_table(names, rows)}"


def device_name(options: argparse.Namespace) -> str:
    device = pick_world(options.device).device
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


if __name__ == "__main__":
    sys.exit(main())
