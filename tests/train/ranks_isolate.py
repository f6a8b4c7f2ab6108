"""Run by torchrun: which samples are named on as many ranks as there are; every rank writes what it saw as JSON.

Arguments: model folder, stem of the outputs.
"""

import json
import sys
from pathlib import Path

from isolating import SOME_BAD, STAGES, clean_samples, marked
from surefoot.config.schema import TrainConfig
from surefoot.train.isolate import find_nonfinite_samples
from surefoot.train.prepare import build_batch, score
from surefoot.train.roles import Roles, load_policy
from surefoot.train.shard import join_world, leave_world
from surefoot.train.step import Trainer
from trainers import config_of


def main(folder: str, output: str) -> None:
    world = join_world("cpu", 60)
    config = config_of("fp32", train=TrainConfig(max_tokens=24))  # two micro-batches a rank
    trainer = Trainer(Roles(load_policy(folder, world, config.precision), None), config)
    model = trainer.roles.policy.model
    ran: list[int] = []
    model.register_forward_pre_hook(lambda _, arguments: ran.append(len(arguments[0].input_ids_T)))
    report = {}
    for stage, spoil in STAGES.items():
        for bad in SOME_BAD:
            samples = marked(clean_samples(), bad)
            batch = build_batch(samples, score(samples, trainer.roles, config, 0), config, trainer.roles.policy)
            ran.clear()
            handle = spoil(model)
            found = find_nonfinite_samples(trainer, batch)
            handle.remove()
            report[f"{stage} {bad}"] = {
                "found": {str(ref.group): what for ref, what in found.items()},
                "ran": sum(ran),
                "positions": sum(len(m.input_ids_T) for row in batch.microbatches_RM for m in row),
            }
    Path(f"{output}-{world.rank}.json").write_text(json.dumps(report))
    leave_world()


if __name__ == "__main__":
    main(*sys.argv[1:])
