"""The trained weights of a checkpoint, in a model."""

from pathlib import Path

from surefoot.nn.model import CausalLM
from surefoot.train.checkpoint import load_tensors, saved_tensors
from surefoot.types.errors import UsageError


def load_masters(checkpoint: Path, model: CausalLM, source: str | Path) -> None:
    """Fill the parameters of `model`, whole on this rank and as wide as the masters, from a checkpoint's masters.

    source: the folder `model` was loaded from, for errors. Errors: UsageError where it is another model than was
    trained; CheckpointError for a damaged checkpoint and for masters of another dtype.
    """
    params = {name: param.detach() for name, param in model.named_parameters()}
    saved = saved_tensors(checkpoint, "policy")
    for name in sorted(params.keys() | saved.keys()):
        theirs, ours = (list(tensors[name].shape) if name in tensors else "none" for tensors in (saved, params))
        if theirs != ours:
            raise UsageError(f"{source}: not the model that was trained: {name} is {ours}, the checkpoint's {theirs}")
    load_tensors(checkpoint, {"policy": params})
