"""Which samples of a batch are behind a number that is not finite: by their inputs, else by running them alone."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from surefoot.train.evidence import inputs_of
from surefoot.train.pack import alone, make_filler
from surefoot.train.step import Trainer
from surefoot.types.rollout import SampleRef
from surefoot.types.train import Batch, Microbatch, NonFinite


def find_nonfinite_samples(trainer: Trainer, batch: Batch) -> dict[SampleRef, str]:
    """{sample: what is not finite of it}; empty where only samples together make the number.

    A sample whose given log-probs or advantage are not finite is named without a model. Where there is none, the
    micro-batches are run one by one, then each sample of those that show something: two passes over the batch at most,
    at the present loss scale, with the weight every token has in the batch. Every rank must call this together, and
    gets the same answer.
    """
    named = dict(_flagged(batch))
    return named or dict(_run_alone(trainer, batch))


def _flagged(batch: Batch) -> Iterator[tuple[SampleRef, str]]:
    for microbatch in _rows(batch):
        for index, sample in alone(microbatch):
            bad = [
                what
                for what, column_T in inputs_of(sample).items()
                if not np.isfinite(column_T[sample.loss_mask_T]).all()
            ]
            if bad:
                yield batch.refs[index], ", ".join(bad)


def _run_alone(trainer: Trainer, batch: Batch) -> Iterator[tuple[SampleRef, str]]:
    for column_R in zip(*batch.microbatches_RM, strict=True):
        if not str(trainer.examine(_only(batch, column_R))):
            continue
        for microbatch in column_R:
            for index, sample in alone(microbatch):
                found = what_is_not_finite(trainer.examine(_beside_fillers(batch, sample)))
                if found:
                    yield batch.refs[index], found


def what_is_not_finite(seen: NonFinite) -> str:
    """Of one sample, by the first stage that shows it; "" where all is finite.

    >>> what_is_not_finite(NonFinite(inputs=0, logprobs=3, losses=1, gradient=True))
    'log-prob'
    """
    stages = {"log-prob": seen.logprobs, "loss": seen.losses, "gradient": seen.gradient}
    return next((name for name, bad in stages.items() if bad), "")


def _rows(batch: Batch) -> Iterator[Microbatch]:
    for row in batch.microbatches_RM:
        yield from row


def _only(batch: Batch, column_R: tuple[Microbatch, ...]) -> Batch:
    return replace(batch, microbatches_RM=tuple((microbatch,) for microbatch in column_R))


def _beside_fillers(batch: Batch, sample: Microbatch) -> Batch:
    """The sample on rank 0, nothing on the others."""
    filler = make_filler(int(sample.input_ids_T[0]), with_reference=len(sample.reference_logprobs_T) > 0)
    return _only(batch, (sample, *[filler] * (len(batch.microbatches_RM) - 1)))
