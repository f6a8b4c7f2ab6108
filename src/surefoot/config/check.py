"""Problems that no single key has: values that contradict one another, or that leave a run without meaning."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from surefoot.config.keys import Path, dotted
from surefoot.config.schema import DataConfig, RewardConfig, RunConfig

SLICE = re.compile(r"-?\d*:-?\d*(:[1-9]\d*)?")


@dataclass(frozen=True, slots=True)
class Problem:
    keys: tuple[Path, ...]  # the one to change first, then those it contradicts
    text: str

    def __str__(self) -> str:
        return f"{dotted(self.keys[0])}: {self.text}"


def find_problems(config: RunConfig) -> list[str]:
    """Every contradiction, "key: why" each; [] where the run can start."""
    return [str(problem) for problem in cross_field_problems(config)]


def cross_field_problems(config: RunConfig) -> list[Problem]:
    return [problem for rule in RULES for problem in rule(config)]


def _problem(text: str, *keys: str) -> Problem:
    return Problem(tuple(_path(key) for key in keys), text)


def _path(key: str) -> Path:
    return tuple(int(part) if part.isdigit() else part for part in key.split("."))


def _model(config: RunConfig) -> Iterator[Problem]:
    if not config.model.path:
        yield _problem("the model folder is not named", "model.path")


def _length(config: RunConfig) -> Iterator[Problem]:
    loop, data = config.loop, config.data
    if loop.steps == 0 and data.epochs == 0:
        yield _problem("the run has no end: set loop.steps or data.epochs", "loop.steps", "data.epochs")
    updates = loop.steps * config.train.updates_per_rollout * config.train.epochs
    if loop.steps and config.optim.schedule != "constant" and config.optim.warmup >= updates:
        yield _problem(
            f'{config.optim.warmup} updates of warm-up leave none of {updates} for schedule "{config.optim.schedule}"',
            "optim.warmup",
            "loop.steps",
        )


def _run_name(config: RunConfig) -> Iterator[Problem]:
    name = config.loop.name
    if not config.observe.run_dir and (not name or name.startswith(".") or "/" in name or "\\" in name):
        yield _problem(f'"{name}" cannot name the folder of a run', "loop.name")


def _data(config: RunConfig) -> Iterator[Problem]:
    mix = config.data.mix
    if not mix:
        yield from _prompts("data", config.data)
    elif config.data.path or config.data.task:
        yield _problem(
            "[[data.mix]] names the sources; [data] cannot name one beside them",
            "data.path" if config.data.path else "data.task",
            "data.mix",
        )
    for index, source in enumerate(mix):
        yield from _prompts(f"data.mix.{index}", source)
    weighted = [source.weight > 0 for source in mix]
    if any(weighted) and not all(weighted):
        yield _problem("some sources have a weight and this one has none", f"data.mix.{weighted.index(False)}.weight")
    for index, data in enumerate(config.eval.sets):
        yield from _prompts(f"eval.sets.{index}", data)


def _prompts(where: str, data: DataConfig) -> Iterator[Problem]:
    if data.source == "reasoning_gym":
        if not data.task:
            yield _problem('source "reasoning_gym" needs a task', f"{where}.task", f"{where}.source")
        if data.size == 0:
            yield _problem(
                'source "reasoning_gym" needs the number of rows to generate', f"{where}.size", f"{where}.source"
            )
    else:
        if not data.path:
            what = "a folder" if data.source == "datasets" else "a file"
            yield _problem(f'source "{data.source}" needs {what}', f"{where}.path", f"{where}.source")
        if not data.input_key:
            yield _problem(f'source "{data.source}" needs the key that holds the prompt', f"{where}.input_key")
    if data.rows and not SLICE.fullmatch(data.rows):
        yield _problem(f'"{data.rows}" is not a slice like ":1000", "1000:" or "::2"', f"{where}.rows")
    if "{prompt}" not in data.template:
        yield _problem("without {prompt} every row would be the same prompt", f"{where}.template")


def _rewards(config: RunConfig) -> Iterator[Problem]:
    rewards = config.env.rewards
    if not rewards:
        yield _problem("no reward: add [[env.rewards]] with a name or a function", "env.rewards")
    yield from _rubric("env.rewards", rewards)
    for index, data in enumerate(config.eval.sets):
        yield from _rubric(f"eval.sets.{index}.rewards", data.rewards)


def _rubric(section: str, rewards: Sequence[RewardConfig]) -> Iterator[Problem]:
    for index, reward in enumerate(rewards):
        where = f"{section}.{index}"
        if bool(reward.name) == bool(reward.function):
            given = "both name and function are" if reward.name else "neither name nor function is"
            yield _problem(f"{given} given; a reward has exactly one", f"{where}.name", f"{where}.function")
        if reward.function and not all(part.isidentifier() for part in _dotted_parts(reward.function)):
            yield _problem(f'"{reward.function}" is not package.module.function', f"{where}.function")
        if not math.isfinite(reward.weight):
            yield _problem(f"{reward.weight} is not a finite number", f"{where}.weight")
        if not math.isfinite(reward.timeout):
            yield _problem("every wait has an end; it must be finite", f"{where}.timeout")
    if rewards and all(reward.weight == 0 for reward in rewards):
        yield _problem("every weight is 0, so every reward would be", f"{section}.0.weight")
    for name, count in Counter(reward.part or reward.name or reward.function for reward in rewards).items():
        if name and count > 1:
            yield _problem(f'{count} rewards are called "{name}"; tell them apart by `part`', section)


def _dotted_parts(function: str) -> list[str]:
    parts = function.split(".")
    return parts if len(parts) > 1 else ["."]


def _groups(config: RunConfig) -> Iterator[Problem]:
    rollout, train = config.rollout, config.train
    if rollout.group_size == 1:
        yield _problem(
            f'a group of 1 has nothing to be compared with: "{config.algo.estimator}" would make every advantage 0',
            "rollout.group_size",
            "algo.estimator",
        )
    rollouts = rollout.prompts_per_step * rollout.group_size
    if train.updates_per_rollout > rollouts:
        yield _problem(
            f"{train.updates_per_rollout} mini-batches cannot be cut from {rollouts} rollouts a step "
            f"({rollout.prompts_per_step} prompts x {rollout.group_size})",
            "train.updates_per_rollout",
            "rollout.prompts_per_step",
            "rollout.group_size",
        )
    if "" in rollout.stop:
        yield _problem("an empty stop string would end every rollout at once", "rollout.stop")


def _tokens(config: RunConfig) -> Iterator[Problem]:
    rollout, budget = config.rollout, config.train.max_tokens
    longest = rollout.max_prompt_tokens + rollout.max_new_tokens
    if longest > budget:
        yield _problem(
            f"a sample of {rollout.max_prompt_tokens} + {rollout.max_new_tokens} = {longest} tokens "
            f"(rollout.max_prompt_tokens + rollout.max_new_tokens) does not fit a micro-batch of {budget}",
            "train.max_tokens",
            "rollout.max_prompt_tokens",
            "rollout.max_new_tokens",
        )


def _scaler(config: RunConfig) -> Iterator[Problem]:
    precision, train = config.precision, config.train
    if precision.min_scale > precision.max_scale:
        yield _problem(
            f"{precision.min_scale} is above precision.max_scale = {precision.max_scale}",
            "precision.min_scale",
            "precision.max_scale",
        )
    elif not precision.min_scale <= precision.init_scale <= precision.max_scale:
        yield _problem(
            f"{precision.init_scale} is outside precision.min_scale to precision.max_scale, "
            f"{precision.min_scale} to {precision.max_scale}",
            "precision.init_scale",
            "precision.min_scale",
            "precision.max_scale",
        )
    if precision.growth_factor <= 1:
        yield _problem(f"{precision.growth_factor} does not grow; it must be > 1", "precision.growth_factor")
    if precision.backoff_factor >= 1:
        yield _problem(f"{precision.backoff_factor} does not back off; it must be < 1", "precision.backoff_factor")
    dynamic = precision.compute == "fp16" and precision.dynamic_scale
    if dynamic and train.on_overflow == "retry" and precision.hysteresis != 1:
        yield _problem(
            f'train.on_overflow = "retry" needs 1: a retry at the scale that overflowed '
            f"overflows again, {precision.hysteresis - 1} times",
            "precision.hysteresis",
            "train.on_overflow",
        )


def _optimizer(config: RunConfig) -> Iterator[Problem]:
    for name, beta in (("beta1", config.optim.beta1), ("beta2", config.optim.beta2)):
        if beta == 1:
            yield _problem("a moment with decay 1 never leaves 0; it must be < 1", f"optim.{name}")


def _evaluation(config: RunConfig) -> Iterator[Problem]:
    for index, data in enumerate(config.eval.sets):
        where = f"eval.sets.{index}"
        if not data.name:
            yield _problem("names the metric eval/<name>/accuracy and cannot be empty", f"{where}.name")
        elif "/" in data.name or data.name.startswith("."):
            yield _problem(f'"{data.name}" cannot name a file of rollouts', f"{where}.name")
        if "" in data.stop:
            yield _problem("an empty stop string would end every rollout at once", f"{where}.stop")
    for name, count in Counter(data.name for data in config.eval.sets).items():
        if name and count > 1:
            yield _problem(f'{count} sets are named "{name}"; their metrics would be one', "eval.sets")


def _debug(config: RunConfig) -> Iterator[Problem]:
    debug = config.debug
    if debug.mode == "train_only" and not debug.rollouts:
        yield _problem('mode "train_only" needs the rollouts of a run', "debug.rollouts", "debug.mode")
    if debug.mode == "fake_data" and not debug.lengths:
        yield _problem('mode "fake_data" needs [[debug.lengths]]', "debug.lengths", "debug.mode")
    for index, lengths in enumerate(debug.lengths):
        tokens = lengths.prompt + lengths.completion
        if tokens > config.train.max_tokens:
            yield _problem(
                f"{tokens} tokens do not fit a micro-batch of {config.train.max_tokens}",
                f"debug.lengths.{index}",
                "train.max_tokens",
            )


RULES: tuple[Callable[[RunConfig], Iterator[Problem]], ...] = (
    _model,
    _length,
    _run_name,
    _data,
    _rewards,
    _groups,
    _tokens,
    _scaler,
    _optimizer,
    _evaluation,
    _debug,
)
