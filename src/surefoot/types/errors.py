"""The error tree, made for `except`. Errors of use exit with 2 and one line; the others are faults of a run."""


class SurefootError(Exception):
    """Base of every error this package raises on purpose."""


class UsageError(SurefootError):
    """The user can mend it: message names the file, line or key. The command line exits with 2."""


class ConfigError(UsageError):
    """Problems of a run file or of overrides, all of them in one message."""


class DataError(UsageError):
    """A prompt file that cannot be read right; names file and line."""


class HookError(UsageError):
    """A function given by import path that is missing or has the wrong signature."""


class RewardError(SurefootError):
    """A reward could not be computed: its sample becomes invalid with this reason, nothing else does."""


class ModelError(UsageError):
    """A model folder that is missing, or an architecture whose log-probs cannot be computed exactly."""


class EngineError(SurefootError):
    """A rollout engine failed or missed its deadline."""


class WeightSyncError(SurefootError):
    """The engine's weights are not the trainer's; names the tensor."""


class CheckpointError(SurefootError):
    """A checkpoint could not be written or read; names the path."""


class RunHalted(SurefootError):
    """The run stopped itself; the message is the reason that stands in the ledger."""
