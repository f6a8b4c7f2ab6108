"""Prompts in, training sequences out."""

from surefoot.data.chat import ChatCodec, load_codec
from surefoot.data.samples import group_rewards, samples_from_groups
from surefoot.data.source import LoadedPrompts, load_data, read_prompts
from surefoot.data.stream import PromptStream

__all__ = [
    "ChatCodec",
    "LoadedPrompts",
    "PromptStream",
    "group_rewards",
    "load_codec",
    "load_data",
    "read_prompts",
    "samples_from_groups",
]
