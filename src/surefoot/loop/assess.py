"""Evaluation of a checkpoint on its own: the sets of a run file, without a trainer, a ledger or a run folder."""

import asyncio
from pathlib import Path

from surefoot.config.schema import RunConfig
from surefoot.envs.workers.pool import WorkerPool
from surefoot.interop.masters import load_masters
from surefoot.loop.evaluate import Evaluation
from surefoot.loop.parts import build_codec, build_collector, build_eval_sets, build_sampling
from surefoot.loop.run import set_threads
from surefoot.loop.stop import Stop
from surefoot.loop.task import build_task
from surefoot.nn.model import CausalLM
from surefoot.observe.console import Console
from surefoot.observe.rollouts import write_rollouts
from surefoot.observe.rundir import evaluation_file
from surefoot.train.checkpoint import load_loop_state
from surefoot.train.find import locate_checkpoint
from surefoot.train.roles import load_policy
from surefoot.train.shard import World, join_world, leave_world
from surefoot.types.errors import ConfigError


def assess(config: RunConfig, checkpoint: Path | None, *, save: Path | None, console: Console) -> list[Evaluation]:
    """Every set of `[[eval.sets]]` for the policy of a checkpoint, or for the model of `model.path` where it is None.

    With the seeds of the run's own evaluations: at the same weights the answers are the same. `save`: a folder for the
    answers, eval-<name>-step-000012.parquet each. Raises what a run's start raises.
    """
    if not config.eval.sets:
        raise ConfigError("eval.sets: there is nothing to evaluate; add [[eval.sets]]")
    world = join_world(config.model.device, config.train.collective_timeout)
    set_threads(config.loop.threads)
    try:
        with WorkerPool(config.env.workers) as pool:
            return asyncio.run(_assess(config, world, pool, checkpoint, save, console))
    finally:
        leave_world()


async def _assess(
    config: RunConfig, world: World, pool: WorkerPool, checkpoint: Path | None, save: Path | None, console: Console
) -> list[Evaluation]:
    task, codec, stop = build_task(config, pool, training=False), build_codec(config), Stop()
    folder = find(checkpoint, console) if checkpoint else None
    model, step = load_trained(config, world, folder), load_loop_state(folder)["position"]["step"] if folder else 0
    codec.refuse_unknown_ids(model.vocabulary)
    engine = build_sampling(config, model, codec, shared=True)
    engine.advance(step)
    sampler = build_collector(config, world, stop, task.rubric, codec, engine, model)
    evaluations = []
    with stop.listening():
        for eval_set in build_eval_sets(config, task, sampler, model):
            with console.progress(f"eval {eval_set.name}", len(eval_set.collector.mine(eval_set.draws))) as bar:
                evaluation = await eval_set.evaluate(bar.advance)
            evaluations.append(evaluation)
            if save and world.leads:
                save.mkdir(parents=True, exist_ok=True)
                write_rollouts(save / evaluation_file(step, eval_set.name), evaluation.collected.groups, {})
    return evaluations


def find(checkpoint: Path, console: Console) -> Path:
    folder, ignored = locate_checkpoint(checkpoint)
    for _, reason in ignored:
        console.warn(f"ignored: {reason}")
    console.info(f"evaluating {folder}")
    return folder


def load_trained(config: RunConfig, world: World, checkpoint: Path | None) -> CausalLM:
    """The policy, whole on this rank, in the precision it computes in."""
    policy = load_policy(config.model.path, World(0, 1, world.device), config.precision)
    if checkpoint:
        load_masters(checkpoint, policy.model, config.model.path)
    policy.narrow(config.precision.compute)
    return policy.model
