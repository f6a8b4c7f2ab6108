"""Builds what a serial run is made of, from its configuration."""

from collections.abc import Sequence
from dataclasses import dataclass

from surefoot.config.schema import RunConfig
from surefoot.data.chat import ChatCodec, load_codec
from surefoot.data.source import load_prompts
from surefoot.data.stream import PromptStream
from surefoot.engines.inprocess.engine import InProcessEngine
from surefoot.envs.rubric import Rubric
from surefoot.loop.advantages import AdvantageEstimator
from surefoot.loop.collect import Collector
from surefoot.loop.evaluate import EvalSet, build_eval_set
from surefoot.loop.position import Position
from surefoot.loop.seeds import derive_seed
from surefoot.loop.worker import Worker
from surefoot.nn.model import load_model
from surefoot.observe.console import Console
from surefoot.train.roles import Roles, load_frozen, load_policy
from surefoot.train.shard import DTYPES, World
from surefoot.train.step import Trainer, TrainerConfig
from surefoot.types.errors import ConfigError
from surefoot.types.rollout import Prompt, Sampling
from surefoot.weights.publish import CopiedWeights, Publisher, SharedWeights


@dataclass(slots=True, eq=False)
class Parts:
    config: RunConfig
    world: World
    stream: PromptStream
    collector: Collector
    advantages: AdvantageEstimator
    trainer: Trainer
    worker: Worker
    publisher: Publisher
    eval_sets: tuple[EvalSet, ...]
    console: Console
    position: Position

    @property
    def finished(self) -> bool:
        steps, total = self.config.loop.steps, self.stream.total
        return (steps > 0 and self.position.step >= steps) or (total is not None and self.stream.cursor >= total)

    def due(self, every: int) -> bool:
        return every > 0 and self.position.step % every == 0


def build_parts(config: RunConfig, world: World, console: Console) -> Parts:
    """Data and rewards first: a mistake in them must not wait for a model to load."""
    rubric = Rubric.from_config(config.env.rewards, timeout=config.env.timeout)
    prompts = load_prompts(config.data)
    held_out = [load_prompts(eval_set) for eval_set in config.eval.sets]
    rubric.check([prompt for part in (prompts, *held_out) for prompt in part])
    stream = PromptStream(
        prompts,
        seed=derive_seed(config.loop.seed, "order"),
        shuffle=config.data.shuffle,
        epochs=config.data.epochs,
    )
    codec = load_codec(config.model.path, config.data.chat_template)
    codec.refuse_stops(config.rollout.stop)
    trainer = build_trainer(config, world, prompts)
    codec.refuse_unknown_ids(trainer.roles.policy.model.vocabulary)
    engine, publisher = build_engine(config, world, trainer, codec)
    collector = Collector(
        codec=codec,
        generate=engine.generate,
        rubric=rubric,
        world=world,
        sampling=Sampling(config.rollout.temperature, config.rollout.max_new_tokens, tuple(config.rollout.stop)),
        group_size=config.rollout.group_size,
        max_prompt_tokens=prompt_limit(config, trainer),
        seed=derive_seed(config.loop.seed, "rollout"),
    )
    eval_sets = [build_eval_set(c, p, collector) for c, p in zip(config.eval.sets, held_out, strict=True)]
    worker = Worker(trainer, config.train, config.reference.update_interval, console.progress)
    shuffle_seed = derive_seed(config.loop.seed, "shuffle") if config.debug.shuffle_rewards else None
    return Parts(
        config,
        world,
        stream,
        collector,
        AdvantageEstimator(config.algo, shuffle_seed),
        trainer,
        worker,
        publisher,
        tuple(eval_sets),
        console,
        Position(),
    )


def build_trainer(config: RunConfig, world: World, prompts: Sequence[Prompt]) -> Trainer:
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
        total_updates=total_updates(config, len(prompts)),
    )
    return Trainer(Roles(policy, reference), settings)


def prompt_limit(config: RunConfig, trainer: Trainer) -> int:
    """As configured, or what leaves room for a completion in the model's context."""
    positions = trainer.roles.policy.model.max_positions
    room = config.rollout.max_prompt_tokens if positions is None else positions - config.rollout.max_new_tokens
    if room <= 0:
        asked = config.rollout.max_new_tokens
        raise ConfigError(f"rollout.max_new_tokens: {asked} leave no room for a prompt in {positions} positions")
    return min(config.rollout.max_prompt_tokens, room)


def total_updates(config: RunConfig, num_prompts: int) -> int:
    """Updates of the whole run if none is skipped: where the learning-rate schedule ends."""
    from_data = -(-config.data.epochs * num_prompts // config.rollout.prompts_per_step)
    limits = [steps for steps in (config.loop.steps, from_data) if steps]
    return min(limits) * config.train.updates_per_rollout * config.train.epochs


def build_engine(
    config: RunConfig, world: World, trainer: Trainer, codec: ChatCodec
) -> tuple[InProcessEngine, Publisher]:
    """One rank: the sampler shares the trainer's parameters. More: each rank samples from a whole copy."""
    policy = trainer.roles.policy.model
    dtype = DTYPES[config.precision.compute]
    shared = world.size == 1
    engine = InProcessEngine(
        policy if shared else load_model(config.model.path, world.device, dtype=dtype),
        decode=codec.decode,
        eos_ids=codec.eos_ids,
        max_slots=config.rollout.max_slots,
        shared=shared,
    )
    return engine, SharedWeights(engine) if shared else CopiedWeights(policy, engine, dtype)
