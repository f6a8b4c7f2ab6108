"""Prompts in, training sequences out."""

from surefoot.data.chat import ChatCodec, load_codec
from surefoot.data.samples import group_rewards, samples_from_groups
from surefoot.data.source import load_prompts, read_prompts
from surefoot.data.stream import PromptStream

__all__ = [
    "ChatCodec",
    "PromptStream",
    "group_rewards",
    "load_codec",
    "load_prompts",
    "read_prompts",
    "samples_from_groups",
]
