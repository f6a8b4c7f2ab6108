"""The step: invariance to how a batch is cut, skips that change nothing, and the order of decide and mutate."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

import surefoot.train.step as step_module
from support import make_samples
from surefoot.config.schema import AlgoConfig, OptimConfig, PrecisionConfig, TrainConfig
from surefoot.train.hooks import Refusal
from surefoot.train.prepare import build_batch, score
from surefoot.train.roles import Roles, load_frozen, load_policy
from surefoot.train.shard import World
from surefoot.train.state import restore, tensor_state, weights_digest
from surefoot.train.step import Trainer, TrainerConfig
from surefoot.types.rollout import Sample
from surefoot.types.train import Batch, StepReport

LENGTHS = [(3, 5), (7, 30), (2, 1), (10, 12), (4, 50), (1, 2), (30, 9)]
ONE = World(0, 1, torch.device("cpu"))


def trainer(folder: Path, compute: str = "fp32", *, reference: bool = False, **sections: object) -> Trainer:
    precision = PrecisionConfig(compute=compute, init_scale=1024.0)
    parts = {
        "train": TrainConfig(max_tokens=64),
        "algo": AlgoConfig(kl_coef=0.1 if reference else 0.0),
        "optim": OptimConfig(lr=1e-2),
        **sections,
    }
    frozen = load_frozen("reference", str(folder), ONE, precision) if reference else None
    roles = Roles(load_policy(str(folder), ONE, precision), frozen)
    return Trainer(
        roles, TrainerConfig(**parts, precision=precision, temperature=0.8, constant_length=16, total_updates=0)
    )


def batch_of(trainer: Trainer, samples: list[Sample]) -> Batch:
    return build_batch(samples, score(samples, trainer.roles, trainer.config, 0), trainer.config, trainer.roles.policy)


def attempt(trainer: Trainer, batch: Batch) -> StepReport:
    return trainer.attempt(batch, step=1, attempt=0, version=0)


def gradients(trainer: Trainer, batch: Batch) -> tuple[float, float, torch.Tensor]:
    """(loss, mean |term|, all gradients in one float64 vector) without an update."""
    totals = trainer.backward(batch).totals
    vector = torch.cat([g.double().flatten() for g in trainer.masters.gradients()])
    trainer.masters.clear_gradients()
    return totals["loss"].item(), totals["abs_term_sum"].item(), vector


CUTS: dict[str, Callable[[list[Sample]], tuple[int, list[Sample]]]] = {
    "one micro-batch": lambda samples: (4096, samples),
    "a sample each": lambda samples: (60, samples),
    "another order": lambda samples: (100, samples[::-1]),
    "shuffled": lambda samples: (80, [samples[i] for i in (3, 1, 6, 0, 5, 2, 4)]),
}


@pytest.mark.parametrize("aggregation", ["token_mean", "sample_mean", "constant"])
@pytest.mark.parametrize(("compute", "gradient_bound", "loss_bound"), [("fp64", 1e-12, 1e-12), ("fp32", 1e-5, 1e-6)])
def test_cut_and_order_do_not_matter(
    model_folder: Path, compute: str, gradient_bound: float, loss_bound: float, aggregation: str
) -> None:
    samples = make_samples(LENGTHS)
    results = []
    for cut in CUTS.values():
        max_tokens, ordered = cut(samples)
        this = trainer(
            model_folder,
            compute,
            reference=True,
            train=TrainConfig(max_tokens=max_tokens),
            algo=AlgoConfig(kl_coef=0.1, aggregation=aggregation),
        )
        results.append(gradients(this, batch_of(this, ordered)))
    loss, size, vector = results[0]
    for other_loss, _, other in results[1:]:
        assert (vector - other).norm() / vector.norm() < gradient_bound
        assert abs(loss - other_loss) < loss_bound * size


def test_untrained_tokens_change_nothing(model_folder: Path) -> None:
    """Log-probs, advantages and old log-probs of tokens that do not train may hold anything, bit for bit."""
    samples = make_samples(LENGTHS)
    clean = trainer(model_folder)
    right = gradients(clean, batch_of(clean, samples))
    for garbage in (np.nan, np.inf, -np.inf, 1e38):
        spoilt = [
            dataclasses.replace(
                s,
                behavior_logprobs_L=np.where(s.loss_mask_L, s.behavior_logprobs_L, garbage).astype(np.float32),
                advantages_L=np.where(s.loss_mask_L, s.advantages_L, garbage).astype(np.float32),
            )
            for s in samples
        ]
        this = trainer(model_folder)
        loss, _, vector = gradients(this, batch_of(this, spoilt))
        assert loss == right[0] and torch.equal(vector, right[2])


@pytest.mark.parametrize("garbage", [torch.nan, torch.inf, -torch.inf])
def test_an_untrained_token_s_logits_change_nothing(model_folder: Path, garbage: float) -> None:
    """Rows that do not train never reach the head: whatever their hidden states are, loss and gradient are the same."""
    samples = make_samples(LENGTHS)
    clean, spoilt = trainer(model_folder), trainer(model_folder)
    batch = batch_of(clean, samples)
    masks = iter([m.loss_mask_T for row in batch.microbatches_RM for m in row])

    def spoil_untrained(module: torch.nn.Module, inputs: object, output: torch.Tensor) -> torch.Tensor:
        trained = torch.from_numpy(next(masks))[None, :, None]
        return torch.where(trained, output, garbage)

    spoilt.roles.policy.model.hf.model.norm.register_forward_hook(spoil_untrained)
    loss, _, vector = gradients(spoilt, batch)
    right_loss, _, right = gradients(clean, batch)
    assert loss == right_loss and torch.equal(vector, right)


def snapshot(trainer: Trainer) -> dict[str, torch.Tensor]:
    state = tensor_state(trainer)
    flat = {f"policy.{k}": v.clone() for k, v in state["policy"].items()}
    for name, moments in state["optimizer"].items():
        flat |= {f"{name}.{k}": v.clone() for k, v in moments.items()}
    return flat | {f"param.{n}": p.detach().clone() for n, p in trainer.roles.policy.parameters()}


def spoil(samples: list[Sample], field: str, value: float) -> list[Sample]:
    """One trained token of the middle sample holds `value`."""
    bad = samples[3]
    array = getattr(bad, field).copy()
    array[-2] = value
    return [*samples[:3], dataclasses.replace(bad, **{field: array}), *samples[4:]]


@pytest.mark.parametrize("compute", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("case", ["nonfinite_loss", "nonfinite_grad", "overflow", "zero_signal", "empty_batch"])
def test_skipped_means_untouched(model_folder: Path, compute: str, case: str) -> None:
    this = trainer(model_folder, compute)
    samples = make_samples(LENGTHS)
    assert attempt(this, batch_of(this, samples)).verdict == "applied"
    bad = samples
    if case == "nonfinite_loss":
        bad = spoil(samples, "behavior_logprobs_L", -np.inf)
    elif case in ("nonfinite_grad", "overflow"):
        this.masters.params[0].register_hook(lambda grad: grad * torch.inf)
    elif case == "zero_signal":
        bad = [dataclasses.replace(s, advantages_L=np.zeros_like(s.advantages_L)) for s in samples]
    elif case == "empty_batch":
        bad = [dataclasses.replace(s, loss_mask_L=np.zeros_like(s.loss_mask_L)) for s in samples]
    expected = case
    if case in ("nonfinite_grad", "overflow"):  # the same fact: only fp16 has a scale to lower
        expected = "overflow" if compute == "fp16" else "nonfinite_grad"
    before, updates, scale = snapshot(this), this.updates, this.scaler.loss_scale
    report = attempt(this, batch_of(this, bad))
    assert (report.verdict, report.reason) == ("skipped", expected)
    after = snapshot(this)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert this.updates == updates and not this.masters.gradients()
    assert this.scaler.loss_scale == (scale / 2 if expected == "overflow" else scale)


@pytest.mark.parametrize("correction", ["none", "tis"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("field", ["behavior_logprobs_L", "advantages_L"])
def test_non_finite_inputs_are_evidence(model_folder: Path, correction: str, value: float, field: str) -> None:
    """Whether or not a term of the loss looks at them."""
    this = trainer(model_folder, algo=AlgoConfig(correction=correction), train=TrainConfig(updates_per_rollout=2))
    report = attempt(this, batch_of(this, spoil(make_samples(LENGTHS), field, value)))
    assert (report.verdict, report.reason) == ("skipped", "nonfinite_loss")
    assert report.nonfinite.inputs == 1


@pytest.mark.parametrize("where", ["loss_terms", "packed_inputs"])
def test_an_exception_is_evidence(model_folder: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """In the second of several micro-batches; the attempt after it is as if nothing had been."""
    samples = make_samples(LENGTHS)
    right, this = trainer(model_folder), trainer(model_folder)
    batch, before = batch_of(this, samples), snapshot(this)
    with monkeypatch.context() as patch:
        original, calls = getattr(step_module, where), []

        def fail_second(*arguments: object, **keywords: object) -> object:
            calls.append(1)
            if len(calls) == 2:
                raise torch.OutOfMemoryError("no memory for this")
            return original(*arguments, **keywords)

        patch.setattr(step_module, where, fail_second)
        report = attempt(this, batch)
    assert (report.verdict, report.reason) == ("skipped", "error")
    assert report.detail == "OutOfMemoryError: no memory for this"
    assert all(torch.equal(before[name], value) for name, value in snapshot(this).items())
    assert attempt(this, batch).grad_norm == attempt(right, batch_of(right, samples)).grad_norm


def test_an_exception_in_the_model_is_evidence(model_folder: Path) -> None:
    this = trainer(model_folder)
    batch = batch_of(this, make_samples(LENGTHS))
    handle = this.roles.policy.model.hf.model.norm.register_forward_pre_hook(lambda *_: 1 / 0)
    report = attempt(this, batch)
    handle.remove()
    assert (report.reason, report.detail) == ("error", "ZeroDivisionError: division by zero")
    assert attempt(this, batch).verdict == "applied"


@pytest.mark.parametrize("compute", ["fp32", "fp16"])
def test_hooks_see_unscaled_gradients_and_change_nothing(model_folder: Path, compute: str) -> None:
    samples = make_samples(LENGTHS)
    seen: dict[str, torch.Tensor] = {}

    def look(grads: Mapping[str, torch.Tensor]) -> None:
        for name in grads:
            seen[name] = grads[name].clone()
            grads[name].fill_(torch.nan)

    twice = TrainConfig(max_tokens=64, updates_per_rollout=2)  # `old` is the trainer's own in either precision
    this, right = trainer(model_folder, compute, train=twice), trainer(model_folder, train=twice)
    this.hooks = (look,)
    true = gradients(right, batch_of(right, samples))[2]
    assert attempt(this, batch_of(this, samples)).verdict == "applied"
    assert list(seen) == this.masters.names
    vector = torch.cat([seen[name].double().flatten() for name in right.masters.names])
    assert (vector - true).norm() / true.norm() < (1e-6 if compute == "fp32" else 2e-2)


class RefuseAll:
    def __init__(self, answer: object) -> None:
        self.answer = answer

    def __call__(self, gradients: object) -> object:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "verdict", "reason", "words"),
    [
        (Refusal("the head stood still"), "skipped", "hook", "RefuseAll: the head stood still"),
        (Refusal("enough", halt=True), "halted", "user_policy", "RefuseAll: enough"),
        (KeyError("lm_head"), "skipped", "error", "KeyError: 'lm_head'"),
        (False, "skipped", "error", "RefuseAll returned False; a gradient hook returns None or a Refusal"),
    ],
)
def test_a_hook_that_refuses(model_folder: Path, answer: object, verdict: str, reason: str, words: str) -> None:
    this = trainer(model_folder)
    this.hooks = (RefuseAll(answer),)  # type: ignore[assignment]
    before = snapshot(this)
    report = attempt(this, batch_of(this, make_samples(LENGTHS)))
    assert (report.verdict, report.reason) == (verdict, reason)
    assert words in report.detail
    assert all(torch.equal(before[name], value) for name, value in snapshot(this).items())


@pytest.mark.parametrize("compute", ["fp32", "bf16", "fp16"])
def test_the_kl_to_oneself_starts_at_zero(model_folder: Path, compute: str) -> None:
    """Reference and policy compute in the same precision."""
    this = trainer(model_folder, compute, reference=True)
    assert attempt(this, batch_of(this, make_samples(LENGTHS))).metrics["kl_reference"] == 0


def test_ruined_weights_halt(model_folder: Path) -> None:
    this = trainer(model_folder)
    with torch.no_grad():
        this.masters.tensors[1][0, 0] = torch.nan
    report = attempt(this, batch_of(this, make_samples(LENGTHS)))
    assert (report.verdict, report.reason) == ("halted", "nonfinite_param")


def test_the_scale_does_not_change_the_update(model_folder: Path) -> None:
    """Gradients are unscaled once, by the scale that was used: fp16 at 2^4 and 2^14 take the same step."""
    results = []
    for scale in (16.0, 16384.0):
        this = trainer(model_folder, "fp16")
        this.scaler.restore({**this.scaler.state_dict(), "scale": scale})
        report = attempt(this, batch_of(this, make_samples(LENGTHS)))
        results.append((report.grad_norm, torch.cat([m.detach().flatten() for m in this.masters.tensors])))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-3)
    moved = (results[0][1] - results[1][1]).norm() / results[0][1].norm()
    assert moved < 1e-3


@pytest.mark.parametrize("compute", ["bf16", "fp16"])
def test_masters_are_fp32_and_round_into_the_parameters(model_folder: Path, compute: str) -> None:
    this = trainer(model_folder, compute, optim=OptimConfig(lr=1e-6))
    addresses = [p.data_ptr() for p in this.masters.params]
    start = [m.detach().clone() for m in this.masters.tensors]
    attempt(this, batch_of(this, make_samples(LENGTHS)))
    assert all(m.dtype == torch.float32 for m in this.masters.tensors)
    moved = [not torch.equal(a, b) for a, b in zip(start, this.masters.tensors, strict=True)]
    assert all(moved)  # by less than half a bf16 step, which only fp32 can hold
    for param, master in zip(this.masters.params, this.masters.tensors, strict=True):
        assert torch.equal(param, master.to(param.dtype))
    assert [p.data_ptr() for p in this.masters.params] == addresses  # the sampler reads them there


def test_clipping_leaves_the_direction(model_folder: Path) -> None:
    this = trainer(model_folder, train=TrainConfig(max_grad_norm=1e-3), optim=OptimConfig(lr=1.0))
    free = gradients(this, batch_of(this, make_samples(LENGTHS)))[2]
    norms = []
    this.optimizer.register_step_pre_hook(
        lambda *_: norms.append(torch.cat([g.double().flatten() for g in this.masters.gradients()]))
    )
    report = attempt(this, batch_of(this, make_samples(LENGTHS)))
    assert report.grad_norm == pytest.approx(free.norm().item(), rel=1e-5)
    assert norms[0].norm().item() == pytest.approx(1e-3, rel=1e-5)
    assert torch.nn.functional.cosine_similarity(norms[0], free, dim=0) > 0.999999


def test_the_reference_term_leaves_the_graph_at_zero(model_folder: Path) -> None:
    samples = make_samples(LENGTHS)
    without = trainer(model_folder)
    metric_only = trainer(model_folder, reference=True, algo=AlgoConfig(kl_coef=0.0, kl_metric=True))
    loss, _, vector = gradients(without, batch_of(without, samples))
    other_loss, _, other = gradients(metric_only, batch_of(metric_only, samples))
    assert loss == other_loss and torch.equal(vector, other)


def test_state_restores_to_the_bit(model_folder: Path) -> None:
    batches = [make_samples(LENGTHS, seed) for seed in (1, 2, 3)]
    whole, first = trainer(model_folder, "fp16"), trainer(model_folder, "fp16")
    for samples in batches:
        attempt(whole, batch_of(whole, samples))
    for samples in batches[:2]:
        attempt(first, batch_of(first, samples))
    second = trainer(model_folder, "fp16")
    saved, live = tensor_state(first), tensor_state(second)
    for name, tensor in live["policy"].items():
        tensor.copy_(saved["policy"][name])
        for key, moment in live["optimizer"][name].items():
            moment.copy_(saved["optimizer"][name][key])
    restore(second, {"updates": first.updates, "scaler": first.scaler.state_dict()})
    attempt(second, batch_of(second, batches[2]))
    assert weights_digest(second) == weights_digest(whole) != weights_digest(first)
