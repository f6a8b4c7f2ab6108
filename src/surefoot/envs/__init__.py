"""Episodes and rewards: what happens between a prompt and its reward."""

from surefoot.envs.episode import run_group, run_rollout
from surefoot.envs.hooks import load_function
from surefoot.envs.rubric import Rubric

__all__ = ["Rubric", "load_function", "run_group", "run_rollout"]
