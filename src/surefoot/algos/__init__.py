"""Algorithms as pure functions, tensors in and tensors out; they know nothing of models, ranks or engines."""

from surefoot.algos.advantage import group_advantages
from surefoot.algos.correction import importance_weights
from surefoot.algos.kl import kl_estimate
from surefoot.algos.loss import policy_loss
from surefoot.algos.reduce import token_weights

__all__ = ["group_advantages", "importance_weights", "kl_estimate", "policy_loss", "token_weights"]
