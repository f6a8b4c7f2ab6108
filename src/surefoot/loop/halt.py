"""What a run leaves behind when it halts: a page for whoever finds it in the morning."""

from collections.abc import Sequence
from pathlib import Path

from surefoot.observe.rows import StepRow
from surefoot.train.find import find_checkpoint
from surefoot.types.train import Reason, StepReport

SHOWN = 12  # attempts before the halt
MEANING: dict[Reason, str] = {
    "nonfinite_param": (
        "Weights hold inf or NaN. No further step can be trusted; they were neither given to the sampler nor saved.\n"
        "Often: a learning rate too high (optim.lr, optim.warmup), or a checkpoint or model that was damaged before.\n"
        "--resume goes on from the newest checkpoint, whose weights were finite."
    ),
    "nonfinite_loss": (
        'A log-prob, an advantage or a loss term was not finite and train.on_nonfinite is "halt".\n'
        '"skip" passes over such a batch, "drop_samples" trains on without the samples behind it.'
    ),
    "nonfinite_grad": (
        'The loss was finite, its gradient was not, at any loss scale, and train.on_nonfinite is "halt".\n'
        '"skip" passes over such a batch, "drop_samples" trains on without the samples behind it.'
    ),
    "skip_budget_exhausted": (
        "More steps in a row were skipped than train.max_consecutive_skips allows.\n"
        "The reason of the last one is in its detail; the attempts below show whether they were all alike."
    ),
    "user_policy": "A hook of train.gradient_hooks asked for the end.",
}


def describe(report: StepReport) -> str:
    """An attempt that was not applied, in a line."""
    scale = f"loss scale {report.loss_scale:g}, next {report.next_loss_scale:g}"
    why = f" ({report.detail})" if report.detail else ""
    return f"step {report.step}, attempt {report.attempt} {report.verdict}: {report.reason}{why}; {scale}"


def halt_report(rows: Sequence[StepRow], checkpoints: Path) -> str:
    """From the run's attempts, the last of which halted it."""
    last = rows[-1]
    saved, _ = find_checkpoint(checkpoints)
    return "\n".join(
        [
            f"step {last.step}, attempt {last.attempt} halted: {last.reason}",
            *([last.detail] if last.detail else []),
            "",
            MEANING.get(last.reason, ""),
            "",
            f"policy version {last.policy_version}; newest checkpoint before the halt: {saved or 'none'}",
            "",
            "the last attempts:",
            *(_line(row) for row in rows[-SHOWN:]),
            "",
        ]
    )


def _line(row: StepRow) -> str:
    figures = f"loss {row.loss:+.3e}  grad norm {row.grad_norm:.3e}  loss scale {row.loss_scale:g}"
    size = f"{row.num_samples} samples, {row.num_tokens} tokens"
    verdict = f"{row.verdict}: {row.reason}" + (f" ({row.detail})" if row.detail else "")
    return f"  step {row.step}, attempt {row.attempt}: {figures}  {size}  {verdict}"
