"""Run by torchrun: faults met by one rank, or one sample, and what the worker makes of them on all ranks.

Arguments: model folder, output, device. Rank 0 writes {scenario: result}; test_faults.py holds what each must be.
"""

import copy
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

import surefoot.train.step as step_module
from support import VOCAB, make_samples
from surefoot.config.schema import AlgoConfig, OptimConfig, PrecisionConfig, TrainConfig
from surefoot.loop.worker import Update, Worker
from surefoot.nn.digest import combined_digest, tensor_digest
from surefoot.nn.model import CausalLM, load_model
from surefoot.observe.console import Console
from surefoot.train.checkpoint import load_loop_state, load_tensors, save_checkpoint
from surefoot.train.hooks import Refusal
from surefoot.train.prepare import build_batch, score
from surefoot.train.roles import Role, Roles
from surefoot.train.shard import DTYPES, World, join_world, leave_world, local, shard, whole
from surefoot.train.state import number_state, restore, tensor_state, weights_digest
from surefoot.train.step import Trainer, TrainerConfig
from surefoot.types.rollout import Sample
from surefoot.types.train import Batch

BOMB = VOCAB - 1  # in an input, it makes that position's gradient NaN
OPTIMIZERS = get_args(OptimConfig.model_fields["name"].annotation)
LENGTHS = [(3 + i % 3, 8 + i) for i in range(9)]
PLACES: dict[str, Callable[[int], int]] = {  # number of micro-batches -> one of them
    "first": lambda count: 0,
    "middle": lambda count: count // 2,
    "last": lambda count: count - 1,
}
Result = dict[str, Any]


@cache
def model_of(folder: str) -> CausalLM:
    return load_model(folder, torch.device("cpu"))


def policy_of(folder: str, world: World, compute: str) -> Role:
    """As `load_policy` makes it, from a model that is loaded once."""
    model = copy.deepcopy(model_of(folder)).to(world.device)
    return Role("policy", shard(model, world, DTYPES[compute]), world, model.token_costs)


class Lab:
    """A worker on this rank, and what can be done to it."""

    def __init__(
        self, folder: Path, world: World, compute: str, optimizer: str, scaler: Mapping[str, Any], **train: Any
    ):
        self.world = world
        precision = PrecisionConfig(compute=compute, **{"init_scale": 1024.0, "growth_interval": 3} | dict(scaler))
        config = TrainConfig(max_tokens=32, **train)
        optim = OptimConfig(name=optimizer, lr=1e-2, schedule="linear", warmup=4)
        roles = Roles(policy_of(str(folder), world, compute), None)
        self.trainer = Trainer(roles, TrainerConfig(config, AlgoConfig(), optim, precision, 1.0, 0, 40))
        self.worker = Worker(self.trainer, config, 0, Console(quiet=True).progress)
        self.step = 0

    def train(self, samples: list[Sample] | None = None) -> Update:
        self.step += 1
        (update,) = self.worker.train(samples or make_samples(LENGTHS, self.step), step=self.step, version=0)
        return update

    def batch(self) -> Batch:
        """Of the next step."""
        samples, trainer = make_samples(LENGTHS, self.step + 1), self.trainer
        scores = score(samples, trainer.roles, trainer.config, 0)
        return build_batch(samples, scores, trainer.config, trainer.roles.policy)

    def digest(self) -> str:
        """Of everything a skipped attempt may not touch: masters, moments, parameters, counters, learning rate."""
        state = tensor_state(self.trainer)
        tensors = {f"policy.{name}": t for name, t in state["policy"].items()}
        tensors |= {f"{n}.{key}": t for n, moments in state["optimizer"].items() for key, t in moments.items()}
        tensors |= {f"param.{name}": param.detach() for name, param in self.trainer.roles.policy.parameters()}
        digests = [(name, tensor_digest(whole(tensor))) for name, tensor in tensors.items()]
        rates = [group["lr"] for group in self.trainer.optimizer.param_groups]
        return f"{combined_digest(digests)} {self.trainer.updates} {rates}"


def told(update: Update) -> list[tuple[Any, ...]]:
    return [(r.verdict, r.reason, r.loss_scale, r.next_loss_scale) for r in update.reports]


@contextmanager
def loss_terms_of(world: World, rank: int, spoil: Callable[[int, Tensor], Tensor]) -> Iterator[None]:
    """On one rank, the loss of the n-th micro-batch from here on is `spoil(n, loss)`."""
    original, count = step_module.loss_terms, [0]

    def spoilt(*arguments: Any, **keywords: Any) -> Any:
        loss, sums = original(*arguments, **keywords)
        count[0] += 1
        return (spoil(count[0] - 1, loss) if world.rank == rank else loss), sums

    step_module.loss_terms = spoilt
    try:
        yield
    finally:
        step_module.loss_terms = original


def arm(lab: Lab) -> None:
    """From here on the gradient is NaN where BOMB stands in the input; log-probs and losses stay finite."""

    def spoil(module: torch.nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if output.requires_grad:
            bad = (inputs[0] == BOMB)[..., None]
            output.register_hook(lambda grad: torch.where(bad, torch.nan, grad))

    lab.trainer.roles.policy.model.hf.get_input_embeddings().register_forward_hook(spoil)


def with_bombs(*which: int) -> list[Sample]:
    """Samples of which those at `which` hold BOMB in their prompts, and no other does."""
    samples = make_samples(LENGTHS, 5)
    for number, sample in enumerate(samples):
        sample.token_ids_L[sample.token_ids_L == BOMB] = 3
        if number in which:
            sample.token_ids_L[1] = BOMB
    return samples


def skipped_then_applied(lab: Lab, fault: Callable[[], Update]) -> Result:
    """One good step, the fault, a good step again."""
    assert lab.train().settled.verdict == "applied"
    before = lab.digest()
    update = fault()
    after = lab.digest()
    return {
        "told": told(update),
        "detail": update.settled.detail,
        "untouched": before == after,
        "then": lab.train().settled.verdict,
        "updates": lab.trainer.updates,
    }


def overflow_in(lab: Lab, which: Callable[[int], int]) -> Result:
    """`which`: number of micro-batches -> the one that overflows, on the last rank only."""

    def fault() -> Update:
        spoil = which(microbatches(lab))
        with loss_terms_of(lab.world, lab.world.size - 1, lambda n, loss: loss * torch.inf if n == spoil else loss):
            return lab.train()

    return skipped_then_applied(lab, fault)


def microbatches(lab: Lab) -> int:
    """Of the last rank in the next step, without a filler at their end."""
    return sum(bool(m.loss_mask_T.any()) for m in lab.batch().microbatches_RM[-1])


def raises(number: int, loss: Tensor) -> Tensor:
    if number == 1:
        raise torch.OutOfMemoryError("no memory for this")
    return loss


def error_on_one_rank(lab: Lab) -> Result:
    def fault() -> Update:
        with loss_terms_of(lab.world, lab.world.size - 1, raises):
            return lab.train()

    return skipped_then_applied(lab, fault)


def hook(lab: Lab, answer: Callable[[], Refusal | None]) -> Result:
    """On the last rank only."""

    def fault() -> Update:
        if lab.world.rank == lab.world.size - 1:
            lab.trainer.hooks = (lambda gradients: answer(),)
        else:
            lab.trainer.hooks = (lambda gradients: None,)
        update = lab.train()
        lab.trainer.hooks = ()
        return update

    return skipped_then_applied(lab, fault)


def broken_hook() -> Refusal | None:
    raise KeyError("lm_head")


def ruined(lab: Lab) -> Result:
    """A weight of the last rank's part turns NaN between two steps."""
    assert lab.train().settled.verdict == "applied"
    if lab.world.rank == lab.world.size - 1:
        with torch.no_grad():
            local(lab.trainer.masters.tensors[1].detach())[0, 0] = torch.nan
    update = lab.train()
    return {"told": told(update), "detail": update.settled.detail}


def sixteen(lab: Lab) -> Result:
    count = len(lab.batch().microbatches_RM[0])

    def spoil(number: int, loss: Tensor) -> Tensor:
        return loss * torch.inf if number < 16 * count else loss

    with loss_terms_of(lab.world, lab.world.size - 1, spoil):
        update = lab.train()
    return {"told": told(update), "samples": len(update.batch.refs), "updates": lab.trainer.updates}


def bombs(lab: Lab, *which: int) -> Result:
    arm(lab)
    before = lab.digest()
    update = lab.train(with_bombs(*which))
    return {
        "told": told(update),
        "dropped": {ref.group: why for ref, why in update.dropped.items()},
        "left": [ref.group for ref in update.batch.refs],
        "untouched": before == lab.digest(),
        "scale": lab.trainer.scaler.loss_scale,
    }


def resumed(make: Callable[[], Lab], folder: Path) -> Result:
    """Overflows on attempts 1 and 2 of 7 under `skip`; saved after each attempt and gone on with by a new trainer."""
    used, lab = [], make()
    for attempt in range(7):
        with loss_terms_of(
            lab.world, lab.world.size - 1, lambda n, loss, a=attempt: loss * torch.inf if a < 2 else loss
        ):
            used.append(lab.train().settled.loss_scale)
        path = save_checkpoint(
            folder,
            lab.step,
            tensors=tensor_state(lab.trainer),
            loop_state={"trainer": number_state(lab.trainer)},
            weights_digest=weights_digest(lab.trainer),
            keep_last=2,
            keep_every=0,
        )
        step, state = lab.step, lab.trainer.scaler.state_dict()
        lab = make()
        load_tensors(path, tensor_state(lab.trainer), verified=True)
        restore(lab.trainer, load_loop_state(path)["trainer"])
        assert lab.trainer.scaler.state_dict() == state
        lab.step = step
    return {"used": used, "updates": lab.trainer.updates}


def scenarios(folder: Path, scratch: Path, world: World, optimizer: str) -> Iterator[tuple[str, Result]]:
    def lab(compute: str = "fp16", scaler: Mapping[str, Any] | None = None, **train: Any) -> Lab:
        return Lab(folder, world, compute, optimizer, scaler or {}, **train)

    places: dict[str, Callable[[int], int]] = {
        "first": lambda m: 0,
        "middle": lambda m: m // 2,
        "last": lambda m: m - 1,
    }
    for place, which in places.items():
        yield f"overflow {place}", overflow_in(lab(on_overflow="skip"), which)
    floor = {"init_scale": 4.0, "min_scale": 4.0}
    yield "floor", overflow_in(lab(scaler=floor), PLACES["middle"])
    yield "floor, halt", overflow_in(lab(scaler=floor, on_nonfinite="halt"), PLACES["middle"])
    yield "static", overflow_in(lab(scaler={"dynamic_scale": False}), PLACES["middle"])
    yield "sixteen", sixteen(lab(scaler={"init_scale": 2.0**20}))
    for policy in get_args(TrainConfig.model_fields["on_nonfinite"].annotation):
        for compute in ("fp16", "fp32"):
            yield f"nan sample, {policy}, {compute}", bombs(lab(compute, {"init_scale": 16.0}, on_nonfinite=policy), 4)
    yield "nan samples", bombs(lab("fp16", {"init_scale": 16.0}, on_nonfinite="drop_samples"), 0, 4, 8)
    yield "all nan", bombs(lab("fp32", on_nonfinite="drop_samples"), *range(9))
    for compute in ("fp16", "bf16", "fp32"):
        yield f"error, {compute}", error_on_one_rank(lab(compute))
        yield f"refused, {compute}", hook(lab(compute), lambda: Refusal("the head stood still"))
    yield "hook halts", hook(lab(), lambda: Refusal("enough", halt=True))
    yield "hook raises", hook(lab(), broken_hook)
    yield "ruined", ruined(lab("fp32"))
    yield "resumed", resumed(lambda: lab(on_overflow="skip"), scratch / optimizer)


def main(folder: str, output: str, device: str) -> None:
    world = join_world(device, 60)
    results: dict[str, Result] = {}
    for optimizer in OPTIMIZERS:
        for name, result in scenarios(Path(folder), Path(output).with_suffix(""), world, optimizer):
            others = world.gather(result)
            assert all(other == result for other in others), (name, others)
            results[f"{optimizer}: {name}"] = result
    if world.leads:
        torch.save(results, output)
    leave_world()


if __name__ == "__main__":
    np.seterr(all="raise")
    torch.set_num_threads(1)
    main(*sys.argv[1:])
