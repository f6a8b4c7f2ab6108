"""A row's input as messages: text or a list of {role, content}, with the template and the system message put on."""

from typing import Any

from surefoot.config.nearest import nearest_choice
from surefoot.types.errors import ConfigError, DataError
from surefoot.types.rollout import Message

ROLES = ["system", "user", "assistant", "tool"]
KEYS = {"role", "content"}
PLACE = "{prompt}"  # where the template takes the row's text


def check_template(template: str) -> None:
    """Raise `ConfigError` for a template without `{prompt}`: every row would become the same text."""
    if PLACE not in template:
        raise ConfigError(f"template = {template!r} has no {PLACE}: every prompt would be the same text")


def build_messages(value: Any, *, system: str, template: str) -> tuple[Message, ...]:
    """The messages of one row. The template wraps the last user message, which is all of it where `value` is text.

    Other braces in the template stand for themselves. Raises `DataError` with the reason; the caller knows the place.

    >>> build_messages("2+2?", system="Be brief.", template="Q: {prompt}")
    (Message(role='system', content='Be brief.'), Message(role='user', content='Q: 2+2?'))
    """
    messages = [Message("user", value)] if isinstance(value, str) else _read_list(value)
    last = _last_user(messages)
    messages[last] = Message("user", template.replace(PLACE, messages[last].content))
    if not system:
        return tuple(messages)
    if any(message.role == "system" for message in messages):
        raise DataError("the row has a system message of its own, and `system` is set")
    return (Message("system", system), *messages)


def _read_list(value: Any) -> list[Message]:
    if not isinstance(value, list):
        raise DataError(f"the prompt is {kind_of(value)}, not text or a list of {{role, content}}")
    if not value:
        raise DataError("empty prompt: a list without messages")
    return [_read_message(number, entry) for number, entry in enumerate(value)]


def _read_message(number: int, entry: Any) -> Message:
    if not isinstance(entry, dict):
        raise DataError(f"message {number} is {kind_of(entry)}, not {{role, content}}")
    keys = [key for key, value in entry.items() if value is not None or key in KEYS]  # tables fill up with nulls
    if set(keys) != KEYS:
        raise DataError(f"message {number} is {{{', '.join(keys)}}}, not {{role, content}}")
    role, content = entry["role"], entry["content"]
    if role not in ROLES:
        near = nearest_choice(role, ROLES) if isinstance(role, str) else None
        raise DataError(f"message {number}: unknown role {role!r}" + (f"; did you mean {near!r}?" if near else ""))
    if not isinstance(content, str):
        raise DataError(f"message {number}: its content is {kind_of(content)}, not text")
    return Message(role, content)


def _last_user(messages: list[Message]) -> int:
    if messages[-1].role == "assistant":
        raise DataError("the last message is the assistant's: there is nothing to answer")
    users = [index for index, message in enumerate(messages) if message.role == "user"]
    if not users:
        raise DataError("no user message")
    if any(not messages[index].content.strip() for index in users):
        raise DataError("empty prompt")
    return users[-1]


def kind_of(value: Any) -> str:
    """What a JSON value is, in words.

    >>> kind_of(None), kind_of(True), kind_of([1])
    ('null', 'a boolean', 'a list')
    """
    names = {bool: "a boolean", int: "a number", float: "a number", str: "text", list: "a list", dict: "an object"}
    return "null" if value is None else names[type(value)]
