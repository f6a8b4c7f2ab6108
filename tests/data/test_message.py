import pytest

from surefoot.data.message import build_messages, check_template
from surefoot.types.errors import ConfigError, DataError
from surefoot.types.rollout import Message


def test_template_wraps_the_last_user_message_only() -> None:
    rows = [
        {"role": "user", "content": "one {x}"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "three {prompt}"},
    ]
    messages = build_messages(rows, system="S", template='{"q": {prompt}}')
    assert [message.role for message in messages] == ["system", "user", "assistant", "user"]
    assert [message.content for message in messages] == ["S", "one {x}", "two", '{"q": three {prompt}}']


def test_a_rows_own_system_message_is_kept() -> None:
    rows = [{"role": "system", "content": "own"}, {"role": "user", "content": "q"}]
    assert build_messages(rows, system="", template="{prompt}")[0] == Message("system", "own")
    with pytest.raises(DataError, match="system message of its own"):
        build_messages(rows, system="other", template="{prompt}")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "empty prompt"),
        (" \n", "empty prompt"),
        (None, "the prompt is null"),
        (4, "the prompt is a number"),
        (True, "the prompt is a boolean"),
        ({"role": "user"}, "the prompt is an object"),
        ([], "empty prompt"),
        (["hi"], "message 0 is text"),
        ([{"role": "user"}], r"message 0 is \{role\}"),
        ([{"role": "user", "content": "q", "tool_calls": []}], r"message 0 is \{role, content, tool_calls\}"),
        ([{"role": "usr", "content": "q"}], "unknown role 'usr'; did you mean 'user'"),
        ([{"role": ["user"], "content": "q"}], "unknown role"),
        ([{"role": "user", "content": ["q"]}], "message 0: its content is a list"),
        ([{"role": "user", "content": " "}], "empty prompt"),
        ([{"role": "system", "content": "q"}], "no user message"),
        ([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], "nothing to answer"),
    ],
)
def test_what_is_no_prompt(value: object, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        build_messages(value, system="", template="{prompt}")


def test_null_beside_role_and_content_is_nothing() -> None:
    rows = [{"role": "user", "content": "q", "name": None, "tool_calls": None}]
    assert build_messages(rows, system="", template="{prompt}") == (Message("user", "q"),)
    with pytest.raises(DataError, match="message 0: its content is null"):
        build_messages([{"role": "user", "content": None}], system="", template="{prompt}")


def test_a_template_must_take_the_prompt() -> None:
    check_template("Q: {prompt}")
    with pytest.raises(ConfigError, match=r"'\{promt\}' has no \{prompt\}"):
        check_template("{promt}")
