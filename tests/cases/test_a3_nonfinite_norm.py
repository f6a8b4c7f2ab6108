"""a3-nonfinite-norm, https://github.com/pytorch/pytorch/issues/46849

Clipping by a norm that overflowed made huge gradients zero and one inf entry NaN, and training went on. Its kind: any
64 gradients, with and without the loss scaler: a norm is right or reported as what it is, and a factor is never 0.

The step is the product's own; only the masters' gradients are replaced, before anything looks at them.
"""

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from surefoot.config.schema import OptimConfig, TrainConfig
from surefoot.train.clip import clip_coefficient, grad_norm_sq, scale_gradients
from surefoot.train.step import Trainer
from surefoot.types.train import StepReport
from trainers import attempt, one_token_batch, same, snapshot, weights_trainer

COUNT = 64
HUGE, ONE_INF, CONTROL = [3e19] * COUNT, [math.inf] + [2.0] * 63, [6.0, 8.0] + [0.0] * 62
LARGEST = torch.finfo(torch.float32).max
SMALLEST = 2.0**-149  # of float32
SCALERS = [("fp32", 1.0), ("bf16", 1.0), ("fp16", 2.0), ("fp16", 1024.0), ("fp16", 2.0**24)]


class Step:
    """64 weights at 0, Adam with lr 0.1, max_norm 1."""

    def __init__(self, compute: str, scale: float, max_norm: float = 1.0) -> None:
        self.trainer = weights_trainer(
            COUNT,
            compute,
            train=TrainConfig(max_grad_norm=max_norm),
            optim=OptimConfig(lr=0.1),
            precision={"init_scale": scale},
        )
        self.clipped: list[float] = []
        self.trainer.optimizer.register_step_pre_hook(self._look)

    def __call__(self, gradients: Sequence[float]) -> StepReport:
        """An attempt at which the true gradients are these."""
        with pytest.MonkeyPatch.context() as patch:
            replace_gradients(self.trainer, gradients, patch)
            self.clipped = []
            return attempt(self.trainer, one_token_batch(self.trainer))

    def _look(self, *_: object) -> None:
        self.clipped = self.trainer.masters.gradients()[0].tolist()

    @property
    def weights(self) -> list[float]:
        return self.trainer.masters.tensors[0].tolist()


def replace_gradients(trainer: Trainer, gradients: Sequence[float], patch: pytest.MonkeyPatch) -> None:
    original = trainer.backward

    def backward(*arguments: object) -> object:
        seen = original(*arguments)  # type: ignore[arg-type]
        (master,) = trainer.masters.tensors
        master.grad = torch.tensor(gradients, dtype=torch.float64).mul(trainer.scaler.loss_scale).to(master.dtype)
        return seen

    patch.setattr(trainer, "backward", backward)


@pytest.mark.parametrize(("compute", "scale"), SCALERS)
def test_the_handed_cases(compute: str, scale: float) -> None:
    """Huge, then one inf, then the control, in one process."""
    step = Step(compute, scale)
    report = step(HUGE)
    assert report.reason == "ok" and report.grad_norm == pytest.approx(2.4e20, rel=1e-6)
    assert step.clipped == pytest.approx([0.125] * COUNT, rel=1e-6)
    assert step.weights == pytest.approx([-0.1] * COUNT, rel=1e-4)  # Adam's first step is lr, whatever the gradient

    before, updates = snapshot(step.trainer), step.trainer.updates
    report = step(ONE_INF)
    assert (report.verdict, report.grad_norm) == ("skipped", math.inf)
    assert report.reason == ("overflow" if compute == "fp16" else "nonfinite_grad")
    assert same(before, snapshot(step.trainer)) and step.trainer.updates == updates and not step.clipped

    report = step(CONTROL)
    assert (report.reason, report.grad_norm) == ("ok", 10.0)
    assert step.clipped == pytest.approx([0.6, 0.8] + [0.0] * 62, rel=1e-6)


def test_the_check_fails_on_the_fault_itself() -> None:
    """torch's clipping of the handed gradients: zeros, and NaN."""
    for gradients, broken in ((HUGE, lambda g: not g.any()), (ONE_INF, lambda g: g[0].isnan())):
        weight = torch.nn.Parameter(torch.zeros(COUNT))
        weight.grad = torch.tensor(gradients)
        torch.nn.utils.clip_grad_norm_([weight], 1.0)
        assert broken(weight.grad)


magnitudes = st.floats(-LARGEST, LARGEST, width=32) | st.floats(-1, 1, width=32) | st.sampled_from([LARGEST, SMALLEST])
gradients_64 = st.lists(magnitudes, min_size=1, max_size=8).map(lambda some: (some * COUNT)[:COUNT])


def right(gradients: Sequence[float], max_norm: float) -> tuple[float, list[float]]:
    """(norm, clipped gradients); math.hypot scales before it squares."""
    norm = math.hypot(*gradients)
    return norm, [g * min(1.0, max_norm / norm) if norm else 0.0 for g in gradients]


@settings(max_examples=60, deadline=None)
@given(gradients=gradients_64, scaler=st.sampled_from(SCALERS), max_norm=st.sampled_from([1e-3, 1.0, 1e4]))
@example(gradients=[LARGEST] * COUNT, scaler=("fp32", 1.0), max_norm=1e-3)
@example(gradients=[LARGEST / 2**24] * COUNT, scaler=("fp16", 2.0**24), max_norm=1.0)
def test_gradients_of_any_size(gradients: list[float], scaler: tuple[str, float], max_norm: float) -> None:
    """Clipped rightly, or, where the scaled gradient does not fit float32, an overflow that moves nothing."""
    compute, scale = scaler
    step = Step(compute, scale, max_norm)
    before = snapshot(step.trainer)
    report = step(gradients)
    norm, clipped = right(gradients, max_norm)
    if max(map(abs, gradients)) * scale > LARGEST:
        assert (report.reason, report.grad_norm) == ("overflow", math.inf)
        assert same(before, snapshot(step.trainer))
    else:
        assert report.reason == "ok" and report.grad_norm == pytest.approx(norm, rel=1e-6, abs=SMALLEST)
        assert step.clipped == pytest.approx(clipped, rel=1e-6, abs=2 * SMALLEST)
        assert norm < 1e-30 or any(step.clipped)
    assert step(CONTROL).grad_norm == 10.0


@settings(max_examples=40, deadline=None)
@given(
    gradients=gradients_64,
    scaler=st.sampled_from(SCALERS),
    bad=st.sampled_from([math.inf, -math.inf, math.nan]),
    where=st.integers(0, 63),
)
def test_a_norm_that_is_no_number_is_reported_and_moves_nothing(
    gradients: list[float], scaler: tuple[str, float], bad: float, where: int
) -> None:
    step = Step(*scaler)
    assert step(CONTROL).reason == "ok"
    before = snapshot(step.trainer)
    report = step([*gradients[:where], bad, *gradients[where + 1 :]])
    assert report.verdict == "skipped"
    assert math.isnan(report.grad_norm) if math.isnan(bad) else report.grad_norm == math.inf
    assert same(before, snapshot(step.trainer)) and not step.clipped
    assert step(CONTROL).reason == "ok"


DTYPES = [torch.float32, torch.float64]  # of masters


@settings(max_examples=100, deadline=None)
@given(
    gradients=gradients_64,
    dtypes=st.lists(st.sampled_from(DTYPES), min_size=1, max_size=2, unique=True),
    power=st.integers(0, 24),
    max_norm=st.sampled_from([1e-3, 1.0, 1e4]),
)
def test_one_norm_over_several_dtypes(
    gradients: list[float], dtypes: list[torch.dtype], power: int, max_norm: float
) -> None:
    """The step's own three functions over tensors of one and of two dtypes, as scaled by 2^power."""
    scale = 2.0**power
    parts = [gradients[number :: len(dtypes)] for number in range(len(dtypes))]
    grads = [
        torch.tensor(part, dtype=torch.float64).mul(scale).to(dtype) for part, dtype in zip(parts, dtypes, strict=True)
    ]
    held = np.concatenate([grad.double().numpy() for grad in grads])  # as the format rounds them, scaled
    norm = math.sqrt(grad_norm_sq(grads).item()) / scale
    if not np.isfinite(held).all():
        assert norm == math.inf
        with pytest.raises(ValueError, match="cannot scale gradients"):
            clip_coefficient(norm, max_norm)
        return
    expected, clipped = right((held / scale).tolist(), max_norm)
    assert norm == pytest.approx(expected, rel=1e-12)
    coefficient = clip_coefficient(norm, max_norm)
    assert 0 < coefficient <= 1
    scale_gradients(grads, coefficient / scale)
    for grad, part, dtype in zip(grads, np.split(np.array(clipped), [len(parts[0])]), dtypes, strict=False):
        limits = torch.finfo(dtype)
        tolerance = max(4 * limits.eps, 1e-6)
        assert grad.tolist() == pytest.approx(part.tolist(), rel=tolerance, abs=2 * limits.smallest_normal * limits.eps)


@pytest.mark.parametrize("max_norm", [0.0, 1e30])
@pytest.mark.parametrize("compute", ["fp32", "fp16"])
def test_without_clipping_huge_gradients_are_a_counted_skip(compute: str, max_norm: float) -> None:
    """1e20 each: 0.05 g^2 overflows float32; in Adam's moment it would stay, and no later step would move a weight."""
    step = Step(compute, 1024.0, max_norm=max_norm)
    report = step([1e20] * COUNT)
    assert (report.verdict, report.reason) == ("skipped", "nonfinite_grad")
    assert report.grad_norm == pytest.approx(8e20, rel=1e-6)
    assert report.detail.startswith("gradient norm 8e+20: its square overflows; train.max_grad_norm is ")
    assert not any(step.weights) and step.trainer.scaler.loss_scale == report.loss_scale
    assert step([1.0] * COUNT).reason == "ok" and all(step.weights)
