"""Does the quickstart learn, and from the reward? `python examples/quickstart/five_seeds.py [--seeds 5] [--plot FILE]`

For each seed: a new model and data, the run, and its control, in which rewards trade places within the batch
(`debug.shuffle_rewards`). Prints accuracy on 256 held-out prompts before and after, the best that one constant answer
could score, and the bars the example has to clear. About a minute and a quarter a seed on two cores. `--plot` needs
matplotlib.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from surefoot.config.load import load_config
from surefoot.loop.run import run
from surefoot.observe.metrics import read_metrics

HERE = Path(__file__).parent
METRIC = "eval/heldout/accuracy"


def best_constant(file: Path) -> float:
    labels = [json.loads(line)["label"] for line in file.read_text(encoding="utf8").splitlines()]
    return Counter(labels).most_common(1)[0][1] / len(labels)


def train(seed: int, model: Path, *, shuffled: bool) -> list[tuple[int, float]]:
    """(step, held-out accuracy) over one run."""
    overrides = [
        f'model.path="{model}"',
        f'data.path="{model}/train.jsonl"',
        f'eval.sets.0.path="{model}/heldout.jsonl"',
        f"loop.seed={seed}",
        f'loop.name="quickstart-{"shuffled" if shuffled else "seed"}-{seed}"',
        f"debug.shuffle_rewards={str(shuffled).lower()}",
        "eval.every=5",
        "train.max_consecutive_skips=1000",  # the control may unlearn the task until no rollout is right
    ]
    result = run(load_config(HERE / "run.toml", *overrides))
    return [
        (int(line["step"]), line[METRIC]) for line in read_metrics(result.run_dir / "metrics.jsonl") if METRIC in line
    ]


def plot(curves: dict[str, list[list[tuple[int, float]]]], file: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for (name, runs), colour in zip(curves.items(), ("tab:blue", "tab:gray"), strict=True):
        for number, points in enumerate(runs):
            axes.plot(*zip(*points, strict=True), color=colour, alpha=0.8, label=name if number == 0 else None)
    axes.set(xlabel="step", ylabel="held-out accuracy", ylim=(0, 1))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(file, dpi=130)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    rows, curves = [], {"rewards": [], "rewards shuffled": []}
    for seed in range(arguments.seeds):
        model = Path(f"models/quickstart-seed-{seed}")
        prepare = [sys.executable, str(HERE / "prepare.py"), "--seed", str(seed), "--out", str(model)]
        subprocess.run(prepare, check=True, stdout=subprocess.DEVNULL)
        learnt, control = (train(seed, model, shuffled=shuffled) for shuffled in (False, True))
        curves["rewards"].append(learnt)
        curves["rewards shuffled"].append(control)
        rows.append((seed, best_constant(model / "heldout.jsonl"), learnt[0][1], learnt[-1][1], control[-1][1]))
    if arguments.plot:
        plot(curves, arguments.plot)
    print("\n| seed | best constant answer | before | after | gain | gain with shuffled rewards |")
    print("| --- " * 6 + "|")
    for seed, constant, before, after, control in rows:
        gains = f"{after - before:+.3f} | {control - before:+.3f}"
        print(f"| {seed} | {constant:.3f} | {before:.3f} | {after:.3f} | {gains} |")
    drift = sum(shuffled - before for *_, before, _, shuffled in rows) / len(rows)
    passed = all(c <= 0.15 and 0.2 <= b <= 0.5 and a - b >= 0.3 for _, c, b, a, _ in rows) and drift < 0.05
    print(f"\nmean gain with shuffled rewards {drift:+.3f}; bars {'cleared' if passed else 'MISSED'}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
