"""Messages to token ids and sampled ids to text, by the model folder's own tokenizer."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.types.errors import ConfigError, DataError, ModelError
from surefoot.types.rollout import IntArray, Message

ANSWERS = {  # what templates are known to change in answers of earlier turns
    "e f": "an earlier turn",
    "<think>g h</think>e f": "the thinking in an earlier answer",
    " e f\n": "the white space around an earlier answer",
}
EOS_FILES = ("generation_config.json", "config.json")


class ChatCodec:
    """A `Codec` over a transformers tokenizer.

    With `chat_template`, ids are those of the rendered template and nothing else: a template writes its own BOS.
    Without it, one user message's text is encoded with the tokenizer's special tokens. A BOS never stands twice.
    `eos_ids`: every id that ends a generation. Raises `ModelError` for a tokenizer that cannot do what is asked.
    """

    def __init__(self, tokenizer: Any, *, chat_template: bool, eos_ids: frozenset[int]) -> None:
        if chat_template and tokenizer.chat_template is None:
            raise ModelError("chat_template = true, but the tokenizer has no chat template")
        if not chat_template:
            _refuse_closing_token(tokenizer)
        self.tokenizer = tokenizer
        self.chat_template = chat_template
        self.eos_ids = eos_ids

    def encode(self, messages: Sequence[Message]) -> IntArray:
        """Prompt ids [L], up to where the answer begins. Raises `DataError` for messages that cannot be rendered."""
        if not messages:
            raise DataError("no messages to encode")
        ids = self._encode_chat(messages) if self.chat_template else self._encode_text(messages)
        if not ids:
            raise DataError(f"the tokenizer makes no tokens of {messages[-1].content[:40]!r}")
        return np.array(_one_bos(ids, self.tokenizer.bos_token_id), dtype=np.int32)

    def refuse_unknown_ids(self, vocabulary: int) -> None:
        """Raise `ModelError` for a tokenizer that makes ids the model has no embedding for."""
        greatest = max(self.tokenizer.get_vocab().values())
        if greatest >= vocabulary:
            raise ModelError(f"the tokenizer makes ids up to {greatest}, the model knows {vocabulary}")

    def refuse_stops(self, stops: Sequence[str]) -> None:
        """Raise `ConfigError` for a stop string that is a special token: decoding leaves it out, so none matches."""
        special = sorted(set(stops) & set(self.tokenizer.all_special_tokens))
        if special:
            raise ConfigError(f"rollout.stop: {special[0]!r} is a special token of the tokenizer, not text")

    def prefix_problem(self) -> str:
        """How the template breaks the prefix property, "" where it keeps it.

        The property: a conversation's next prompt begins with the prompt before and its answer, letter for letter.
        Without it the turns of an episode train as samples of their own, each with the context it was sampled in.
        """
        if not self.chat_template:
            return ""
        question, follow_up = Message("user", "a b"), Message("user", "c d")
        try:
            for text, what in ANSWERS.items():
                rendered = self._render([question, Message("assistant", text), follow_up])
                if not rendered.startswith(self._render([question]) + text):
                    return f"the chat template rewrites {what}: with several turns each trains as a sample of its own"
        except DataError as error:
            return str(error)
        return ""

    def decode(self, token_ids: Sequence[int] | np.ndarray) -> str:
        """Text of sampled ids without special tokens; for rewards and people, never to be encoded again."""
        ids = [int(token_id) for token_id in token_ids]
        text = self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return str(text)

    def _encode_chat(self, messages: Sequence[Message]) -> list[int]:
        return list(self.tokenizer(self._render(messages), add_special_tokens=False).input_ids)

    def _render(self, messages: Sequence[Message]) -> str:
        from jinja2 import TemplateError

        turns = [{"role": message.role, "content": message.content} for message in messages]
        try:
            return str(self.tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False))
        except TemplateError as error:
            roles = ", ".join(message.role for message in messages)
            raise DataError(f"the chat template refuses messages of roles {roles}: {error}") from error

    def _encode_text(self, messages: Sequence[Message]) -> list[int]:
        if len(messages) > 1 or messages[0].role != "user":
            roles = ", ".join(message.role for message in messages)
            raise DataError(
                f"messages of roles {roles} cannot be encoded as one text: set chat_template = true, "
                "or give a single user message and no system message"
            )
        return list(self.tokenizer(messages[0].content).input_ids)


def load_codec(model_path: str | Path, chat_template: bool) -> ChatCodec:
    """The codec of a local model folder; nothing is downloaded. Raises `ModelError` naming the folder or file."""
    folder = Path(model_path)
    tokenizer = load_tokenizer(folder)
    try:
        return ChatCodec(tokenizer, chat_template=chat_template, eos_ids=eos_ids(folder, tokenizer))
    except ModelError as error:
        raise ModelError(f"{folder}: {error}") from error


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a local model folder; nothing is downloaded. Raises `ModelError` naming the folder."""
    if not folder.is_dir():
        raise ModelError(f"{folder}: no such model folder")
    from transformers import AutoTokenizer  # takes seconds

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # whatever a broken tokenizer file makes the loader raise
        raise ModelError(f"{folder}: its tokenizer cannot be loaded: {type(error).__name__}: {error}") from error


def eos_ids(folder: Path, tokenizer: Any) -> frozenset[int]:
    """The tokenizer's EOS and those of the model's files: chat models end a turn with one, a text with another."""
    own = () if tokenizer.eos_token_id is None else (int(tokenizer.eos_token_id),)
    return frozenset(own).union(*(_eos_of_file(folder / name) for name in EOS_FILES))


def _eos_of_file(path: Path) -> list[int]:
    if not path.is_file():
        return []
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{path.name}: not JSON: {error}") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path.name}: not an object")
    value = content.get("eos_token_id")
    ids = [] if value is None else value if isinstance(value, list) else [value]
    if any(type(token_id) is not int for token_id in ids):
        raise ModelError(f"{path.name}: eos_token_id = {value!r} is not an id or a list of ids")
    return ids


def _one_bos(ids: list[int], bos_id: int | None) -> list[int]:
    """Ids without the first BOS where two lead: the text wrote one and the tokenizer, or the template, another.

    >>> _one_bos([1, 1, 7], 1), _one_bos([1, 7, 1], 1), _one_bos([7], 1)
    ([1, 7], [1, 7, 1], [7])
    """
    first = 0
    while bos_id is not None and ids[first : first + 2] == [bos_id, bos_id]:
        first += 1
    return ids[first:]


def _refuse_closing_token(tokenizer: Any) -> None:
    """An EOS or separator behind every text would end the prompt before its answer."""
    plain, full = (list(tokenizer("a", add_special_tokens=special).input_ids) for special in (False, True))
    if full[-1:] != plain[-1:]:
        raise ModelError(f"the tokenizer ends every text with token {full[-1]}; a prompt must stay open")
