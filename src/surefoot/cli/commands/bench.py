"""surefoot bench: what a part of a run costs on this machine."""

import json
from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from surefoot.cli.commands.ledger import format_table

if TYPE_CHECKING:
    from surefoot.bench.clock import Cost, Syncs
    from surefoot.bench.step import StepCost


def bench_command(
    benchmark: Annotated[Literal["step"], typer.Argument(help="step: whole training attempts.", show_default=False)],
    shape: Annotated[Literal["tiny", "135m", "0.6b"], typer.Option(help="Of a model with random weights.")] = "tiny",
    precision: Annotated[Literal["fp32", "bf16", "fp16"], typer.Option(help="As precision.compute.")] = "bf16",
    samples: Annotated[int, typer.Option(min=2, help="Rollouts a step.")] = 16,
    tokens: Annotated[int, typer.Option(min=8, help="Of each rollout, a fifth of them the prompt.")] = 1024,
    max_tokens: Annotated[int, typer.Option(min=8, help="Of a micro-batch, as train.max_tokens.")] = 16384,
    repeats: Annotated[int, typer.Option(min=5, help="What is timed how often; medians are reported.")] = 5,
    device: Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="auto: cuda where there is one.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, without a table.")] = False,
) -> None:
    """Time training attempts on fake rollouts, and what verdict, evidence and ledger cost in them."""
    from surefoot.bench.stage import Settings
    from surefoot.bench.step import measure_step

    cost = measure_step(Settings(shape, precision, samples, tokens, max_tokens, repeats, device))
    print(json.dumps(_record(benchmark, cost), allow_nan=False) if as_json else _report(cost))


def _record(benchmark: str, cost: "StepCost") -> dict[str, Any]:
    own, attempt = cost.own, cost.attempt
    parts = {
        "norm": own.norm,
        "sums": own.sums,
        "evidence": own.evidence,
        "weights": own.weights,
        "ledger": own.ledger,
        "total": own.total,
        "total_with_norm": own.total_with_norm,
    }
    return {
        "benchmark": benchmark,
        "settings": {**asdict(cost.settings), **asdict(cost.machine)},
        "parameters": cost.parameters,
        "micro_batches": cost.micro_batches,
        "attempt": {
            "wall_ms": attempt.wall,
            "device_ms": attempt.device,
            "tokens_per_second": _tokens_per_second(cost),
            "all_wall_ms": [timing.wall for timing in cost.attempts],
            "all_device_ms": [timing.device for timing in cost.attempts],
        },
        "own": {name: _cost_record(part, cost) for name, part in parts.items()},
        "pairs": {**_spread(cost.ratios), "ratios": list(cost.ratios)},
        "syncs": None if cost.syncs is None else asdict(cost.syncs),
    }


def _cost_record(part: "Cost", cost: "StepCost") -> dict[str, float | None]:
    return {
        "serial_ms": part.serial,
        "kernels_ms": part.kernels,
        "share": cost.share(part.serial),
        "share_bound": cost.share(part.bound),
    }


def _spread(ratios: tuple[float, ...]) -> dict[str, float]:
    return {"median": median(ratios), "low": min(ratios), "high": max(ratios)}


def _tokens_per_second(cost: "StepCost") -> float:
    return cost.settings.samples * cost.settings.tokens / cost.attempt.wall * 1e3


def _report(cost: "StepCost") -> str:
    own, settings = cost.own, cost.settings
    rows: list[tuple[Any, ...]] = [("attempt", cost.attempt.wall, _shown(cost.attempt.device), 100.0)]
    for name, part in (
        ("gradient norm, which clipping needs", own.norm),
        ("sums beside each micro-batch", own.sums),
        ("evidence, decision, report", own.evidence),
        ("look at the weights", own.weights),
        ("ledger and metrics line", own.ledger),
        ("cost without the norm", own.total),
        ("cost with the norm", own.total_with_norm),
    ):
        rows.append((name, part.serial, _shown(part.kernels), 100 * cost.share(part.serial)))
    pairs = _spread(cost.ratios)
    return "\n".join(
        (
            f"{settings.shape}, {settings.precision}, {settings.samples} x {settings.tokens} tokens in "
            f"{cost.micro_batches} micro-batches, {cost.machine.device}, torch {cost.machine.torch}: "
            f"{_tokens_per_second(cost):,.0f} tokens/s",
            format_table((f"median of {settings.repeats}", "ms", "device ms", "% of attempt"), rows),
            f"whole step / written plainly: {pairs['median']:.4f} ({pairs['low']:.4f} to {pairs['high']:.4f}, "
            f"{len(cost.ratios)} pairs)",
            *_sync_lines(cost.syncs),
        )
    )


def _shown(milliseconds: float | None) -> float | str:
    return "-" if milliseconds is None else milliseconds


def _sync_lines(syncs: "Syncs | None") -> list[str]:
    if syncs is None:
        return ["host synchronisations: not applicable on the CPU"]
    before, after = sum(syncs.before.values()), sum(syncs.after.values())
    lines = [f"host synchronisations: {before} before the decision, {after} after it"]
    for when, places in (("before", syncs.before), ("after", syncs.after)):
        lines += [f"  {when}: {count} x {place}" for place, count in places.items()]
    return lines
