"""Builds what a serial run is made of, from its configuration."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from surefoot.config.schema import RunConfig
from surefoot.data.chat import ChatCodec, load_codec
from surefoot.engines.inprocess.engine import InProcessEngine
from surefoot.envs.hooks import is_async, load_function
from surefoot.envs.rubric import Rubric
from surefoot.envs.workers.pool import WorkerPool
from surefoot.loop.advantages import AdvantageEstimator
from surefoot.loop.collect import Collected, Collector
from surefoot.loop.evaluate import EvalSet, build_eval_set
from surefoot.loop.fake import FakeRollouts
from surefoot.loop.position import Position
from surefoot.loop.rollout_only import RolloutOnly
from surefoot.loop.saved import SavedRollouts
from surefoot.loop.seeds import derive_seed
from surefoot.loop.stop import Stop
from surefoot.loop.task import Note, Source, Task, build_stream, build_task, refuse_thin_data
from surefoot.loop.worker import Worker
from surefoot.nn.model import CausalLM, load_model
from surefoot.observe.console import Console
from surefoot.train.hooks import GradientHook
from surefoot.train.roles import Roles, load_frozen, load_policy
from surefoot.train.shard import DTYPES, World
from surefoot.train.step import Trainer, TrainerConfig
from surefoot.types.errors import ConfigError, HookError
from surefoot.types.rollout import Draw, Sampling
from surefoot.weights.publish import CopiedWeights, Publisher, SharedWeights


class Collects(Protocol):
    """Turns draws into scored groups."""

    def mine(self, draws: Sequence[Draw]) -> Sequence[Draw]: ...

    async def collect(self, draws: Sequence[Draw], on_group: Callable[[], None]) -> Collected: ...


@dataclass(slots=True, eq=False)
class Parts:
    config: RunConfig
    world: World
    stop: Stop
    stream: Source
    collector: Collects
    full_marks: float  # the reward that counts as a right answer
    advantages: AdvantageEstimator
    trainer: Trainer
    worker: Worker
    publisher: Publisher
    eval_sets: tuple[EvalSet, ...]
    console: Console
    notes: tuple[Note, ...]  # what the user should know before the first step
    position: Position

    @property
    def finished(self) -> bool:
        steps, total = self.config.loop.steps, self.stream.total
        return (steps > 0 and self.position.step >= steps) or (total is not None and self.stream.cursor >= total)

    def due(self, every: int) -> bool:
        return every > 0 and self.position.step % every == 0


def build_parts(config: RunConfig, world: World, console: Console, pool: WorkerPool) -> Parts:
    """Data and rewards first: a mistake in them must not wait for a model to load. `pool` computes the rewards."""
    task, stop = build_task(config, pool), Stop()
    stream = build_stream(config, task)
    codec = build_codec(config)
    trainer = build_trainer(config, world, stream.total if stream else None)
    model = trainer.roles.policy.model
    codec.refuse_unknown_ids(model.vocabulary)
    engine, publisher = build_engine(config, world, model, codec)
    sampler = build_collector(config, world, stop, task.rubric, codec, engine, model)
    if task.prompts:
        refuse_thin_data(task.prompts, config.rollout.prompts_per_step, lambda prompt: sampler.encode(prompt)[1])
    source, collector = build_source(config, stream, sampler, engine, model)
    worker = RolloutOnly if config.debug.mode == "rollout_only" else Worker
    shuffle_seed = derive_seed(config.loop.seed, "shuffle") if config.debug.shuffle_rewards else None
    return Parts(
        config,
        world,
        stop,
        source,
        collector,
        task.rubric.full_marks,
        AdvantageEstimator(config.algo, shuffle_seed),
        trainer,
        worker(trainer, config.train, config.reference.update_interval, console.progress),
        publisher,
        build_eval_sets(config, task, sampler, model),
        console,
        (*task.notes, *template_notes(codec)),
        Position(),
    )


def build_codec(config: RunConfig) -> ChatCodec:
    codec = load_codec(config.model.path, config.data.chat_template)
    codec.refuse_stops([*config.rollout.stop, *(text for eval_set in config.eval.sets for text in eval_set.stop)])
    return codec


def template_notes(codec: ChatCodec) -> tuple[Note, ...]:
    problem = codec.prefix_problem()
    return (Note("chat_template", problem),) if problem else ()


def build_collector(
    config: RunConfig,
    world: World,
    stop: Stop,
    rubric: Rubric,
    codec: ChatCodec,
    engine: InProcessEngine,
    model: CausalLM,
) -> Collector:
    rollout = config.rollout
    return Collector(
        codec=codec,
        generate=engine.generate,
        rubric=rubric,
        world=world,
        stop=stop,
        sampling=Sampling(rollout.temperature, rollout.max_new_tokens, tuple(rollout.stop)),
        group_size=rollout.group_size,
        max_prompt_tokens=prompt_limit(model, rollout.max_prompt_tokens, rollout.max_new_tokens, "rollout"),
        seed=derive_seed(config.loop.seed, "rollout"),
    )


def build_source(
    config: RunConfig, stream: Source | None, sampler: Collector, engine: InProcessEngine, model: CausalLM
) -> tuple[Source, Collects]:
    """The two may be one: where nothing is sampled, the rollouts come with their prompts."""
    if isinstance(stream, SavedRollouts):
        return stream, stream
    if stream is not None:
        return stream, sampler
    fake = FakeRollouts(
        config.debug.lengths,
        group_size=config.rollout.group_size,
        vocabulary=model.vocabulary,
        version=lambda: engine.version,
        seed=derive_seed(config.loop.seed, "fake"),
    )
    return fake, fake


def build_eval_sets(config: RunConfig, task: Task, sampler: Collector, model: CausalLM) -> tuple[EvalSet, ...]:
    sets = []
    for part in task.evals:
        prompt_tokens = part.config.max_prompt_tokens or config.rollout.max_prompt_tokens
        new_tokens = part.config.max_new_tokens or config.rollout.max_new_tokens
        limit = prompt_limit(model, prompt_tokens, new_tokens, f"eval.sets {part.config.name!r}")
        sets.append(build_eval_set(part.config, part.prompts, sampler, rubric=part.rubric, max_prompt_tokens=limit))
    return tuple(sets)


def build_trainer(config: RunConfig, world: World, total_draws: int | None) -> Trainer:
    checkpointing = config.train.gradient_checkpointing
    policy = load_policy(config.model.path, world, config.precision, checkpointing=checkpointing)
    reference = None
    if config.algo.kl_coef > 0 or config.algo.kl_metric:
        path = config.reference.path or config.model.path
        reference = load_frozen("reference", path, world, config.precision)
    settings = TrainerConfig(
        train=config.train,
        algo=config.algo,
        optim=config.optim,
        precision=config.precision,
        temperature=config.rollout.temperature,
        constant_length=config.algo.constant_length or config.rollout.max_new_tokens,
        total_updates=total_updates(config, total_draws),
    )
    return Trainer(Roles(policy, reference), settings, load_gradient_hooks(config.train.gradient_hooks))


def load_gradient_hooks(paths: Sequence[str]) -> list[GradientHook]:
    """Raises `HookError` for one that is missing, cannot be called as f(gradients), or is async."""
    hooks: list[GradientHook] = []
    for path in paths:
        hook = load_function(path, ["gradients"])
        if is_async(hook):
            raise HookError(f"train.gradient_hooks: {path} is async; a step waits for nothing")
        hooks.append(hook)
    return hooks


def prompt_limit(model: CausalLM, prompt_tokens: int, new_tokens: int, section: str) -> int:
    """As configured, or what leaves room for a completion in the model's context."""
    positions = model.max_positions
    room = prompt_tokens if positions is None else positions - new_tokens
    if room <= 0:
        raise ConfigError(
            f"{section}: max_new_tokens = {new_tokens} leave no room for a prompt in {positions} positions"
        )
    return min(prompt_tokens, room)


def total_updates(config: RunConfig, total_draws: int | None) -> int:
    """Updates of the whole run if none is skipped: where the learning-rate schedule ends."""
    from_data = -(-(total_draws or 0) // config.rollout.prompts_per_step)
    limits = [steps for steps in (config.loop.steps, from_data) if steps]
    return min(limits) * config.train.updates_per_rollout * config.train.epochs


def build_engine(
    config: RunConfig, world: World, policy: CausalLM, codec: ChatCodec
) -> tuple[InProcessEngine, Publisher]:
    """One rank: the sampler shares the trainer's parameters. More: each rank samples from a whole copy."""
    if world.size == 1:
        engine = build_sampling(config, policy, codec, shared=True)
        return engine, SharedWeights(engine)
    dtype = DTYPES[config.precision.compute]
    engine = build_sampling(config, load_model(config.model.path, world.device, dtype=dtype), codec, shared=False)
    return engine, CopiedWeights(policy, engine, dtype)


def build_sampling(config: RunConfig, model: CausalLM, codec: ChatCodec, *, shared: bool) -> InProcessEngine:
    return InProcessEngine(
        model, decode=codec.decode, eos_ids=codec.eos_ids, max_slots=config.rollout.max_slots, shared=shared
    )
