"""Expected ids are written by hand from the toy vocabulary in conftest.py."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from surefoot.data.chat import ChatCodec, load_codec
from surefoot.types.errors import DataError, ModelError
from surefoot.types.rollout import Message

BOS, EOS, U, A, S, LOWER_H, LOWER_I, AB = 1, 2, 4, 5, 6, 7, 8, 12
Save = Callable[..., Path]


def user(text: str) -> Message:
    return Message("user", text)


def test_chat_ids_are_the_templates(save_tokenizer: Save) -> None:
    codec = load_codec(save_tokenizer(), chat_template=True)
    ids_L = codec.encode([Message("system", "i"), user("hi"), Message("assistant", "ab"), user("h")])
    assert ids_L.tolist() == [BOS, S, LOWER_I, U, LOWER_H, LOWER_I, A, AB, U, LOWER_H, A]
    assert ids_L.dtype == np.int32


def test_text_ids_are_the_tokenizers(save_tokenizer: Save) -> None:
    codec = load_codec(str(save_tokenizer()), chat_template=False)
    assert codec.encode([user("hiab")]).tolist() == [BOS, LOWER_H, LOWER_I, AB]


@pytest.mark.parametrize(
    ("single", "template", "chat", "text", "expected"),
    [
        ("<s> $A", "{{ bos_token }}[U]{{ messages[0].content }}", True, "hi", [BOS, U, LOWER_H, LOWER_I]),
        ("$A", "{{ bos_token }}[U]{{ messages[0].content }}", True, "hi", [BOS, U, LOWER_H, LOWER_I]),
        (
            "<s> $A",
            "{{ bos_token }}{{ bos_token }}[U]{{ messages[0].content }}",
            True,
            "hi",
            [BOS, U, LOWER_H, LOWER_I],
        ),
        (
            "<s> $A",
            "[U]{{ messages[0].content }}",
            True,
            "hi",
            [U, LOWER_H, LOWER_I],
        ),  # a template without one means it
        ("<s> $A", None, False, "hi", [BOS, LOWER_H, LOWER_I]),
        ("$A", None, False, "hi", [LOWER_H, LOWER_I]),
        ("<s> $A", None, False, "<s>hi", [BOS, LOWER_H, LOWER_I]),  # text that was rendered beforehand
        ("<s> <s> $A", None, False, "<s>hi", [BOS, LOWER_H, LOWER_I]),
    ],
)
def test_bos_never_twice(
    save_tokenizer: Save, single: str, template: str | None, chat: bool, text: str, expected: list[int]
) -> None:
    codec = load_codec(save_tokenizer(single, template), chat_template=chat)
    assert codec.encode([user(text)]).tolist() == expected


@pytest.mark.parametrize(
    "messages",
    [[Message("system", "i"), user("hi")], [user("h"), Message("assistant", "i"), user("h")], [Message("system", "i")]],
)
def test_without_template_only_one_user_message(save_tokenizer: Save, messages: list[Message]) -> None:
    codec = load_codec(save_tokenizer(), chat_template=False)
    with pytest.raises(DataError, match="chat_template = true"):
        codec.encode(messages)


def test_messages_without_tokens_are_refused(save_tokenizer: Save) -> None:
    codec = load_codec(save_tokenizer("$A"), chat_template=False)
    with pytest.raises(DataError, match="no tokens"):
        codec.encode([user("")])
    with pytest.raises(DataError, match="no messages"):
        codec.encode([])


def test_a_templates_refusal_is_told(save_tokenizer: Save) -> None:
    codec = load_codec(save_tokenizer(), chat_template=True)
    with pytest.raises(DataError, match=r"roles user, tool: no tools here"):
        codec.encode([user("hi"), Message("tool", "i")])


def test_no_template_but_asked_for(save_tokenizer: Save) -> None:
    folder = save_tokenizer(template=None)
    with pytest.raises(ModelError, match=f"{folder.name}.*no chat template"):
        load_codec(folder, chat_template=True)


def test_a_closing_token_is_refused(save_tokenizer: Save) -> None:
    folder = save_tokenizer("<s> $A </s>")
    with pytest.raises(ModelError, match="ends every text with token 2"):
        load_codec(folder, chat_template=False)
    assert load_codec(folder, chat_template=True).encode([user("h")]).tolist() == [BOS, U, LOWER_H, A]


def test_decode_leaves_special_tokens_out_and_spaces_as_they_are(save_tokenizer: Save) -> None:
    codec = load_codec(save_tokenizer(), chat_template=False)
    space, question = 9, 13
    assert codec.decode([LOWER_H, LOWER_I, space, question, EOS]) == "hi ?"
    assert codec.decode(np.array([A, LOWER_H, EOS], dtype=np.int32)) == "h"
    assert codec.decode([]) == ""


def test_decode_does_not_clean_up() -> None:
    words = Tokenizer(models.WordLevel({"hi": 0, " ?": 1, "<unk>": 2}, "<unk>"))
    words.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(tokenizer_object=words, clean_up_tokenization_spaces=True)
    assert fast.decode([0, 1]) == "hi?"  # what the tokenizer would do by itself
    assert ChatCodec(fast, chat_template=False, eos_ids=frozenset()).decode([0, 1]) == "hi ?"


@pytest.mark.parametrize(
    ("generation", "model", "expected"),
    [
        (None, None, {EOS}),
        ({"eos_token_id": 5}, None, {EOS, 5}),
        ({"eos_token_id": [5, 6]}, {"eos_token_id": 7}, {EOS, 5, 6, 7}),
        ({"eos_token_id": None}, {"hidden_size": 3}, {EOS}),
    ],
)
def test_eos_set(save_tokenizer: Save, generation: object, model: object, expected: set[int]) -> None:
    folder = save_tokenizer()
    for name, content in (("generation_config.json", generation), ("config.json", model)):
        if content is not None:
            (folder / name).write_text(json.dumps(content))
    assert load_codec(folder, chat_template=False).eos_ids == expected


@pytest.mark.parametrize("content", ['{"eos_token_id": "</s>"}', '{"eos_token_id": [true]}', "{", "[]"])
def test_a_broken_eos_file_is_named(save_tokenizer: Save, content: str) -> None:
    folder = save_tokenizer()
    (folder / "generation_config.json").write_text(content)
    with pytest.raises(ModelError, match=r"generation_config\.json"):
        load_codec(folder, chat_template=False)


def test_missing_folder_and_missing_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="nowhere: no such model folder"):
        load_codec(tmp_path / "nowhere", chat_template=False)
    with pytest.raises(ModelError, match="tokenizer cannot be loaded"):
        load_codec(tmp_path, chat_template=False)


def test_any_text_is_encoded_with_one_bos(save_tokenizer: Save) -> None:
    codec = load_codec(save_tokenizer(), chat_template=False)

    @settings(max_examples=60, deadline=None)
    @given(st.text("hiab ?", min_size=1), st.integers(0, 3))
    def check(text: str, written: int) -> None:
        ids = codec.encode([user("<s>" * written + text)]).tolist()
        assert ids[0] == BOS
        assert ids.count(BOS) == 1
        assert codec.decode(ids) == text

    check()


def test_codec_by_hand(save_tokenizer: Save) -> None:
    tokenizer = load_codec(save_tokenizer(), chat_template=False).tokenizer
    codec = ChatCodec(tokenizer, chat_template=True, eos_ids=frozenset({9}))
    assert codec.eos_ids == {9}


def turns(content: str, opening: str = "[A]") -> str:
    """A template of the toy tokenizer that writes each message's content as `content` says."""
    names = "{{ {'user': '[U]', 'assistant': '[A]', 'system': '[S]'}[m.role] }}"
    return f"{{% for m in messages %}}{names}{content}{{% endfor %}}{opening}"


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (turns("{{ m.content }}"), ""),
        (turns("{{ m.content.split('</think>')[-1] }}"), "the thinking in an earlier answer"),
        (turns("{{ m.content | trim }}"), "the white space around an earlier answer"),
        (turns("{{ m.content }}", opening="[A]ab"), "an earlier turn"),  # opens an answer otherwise than it closes one
        (turns("{{ m.content if loop.last else '' }}"), "an earlier turn"),
        (turns("{{ raise_exception('once') if m.role == 'assistant' else m.content }}"), "refuses messages of roles"),
    ],
)
def test_the_prefix_property(save_tokenizer: Save, template: str, said: str) -> None:
    problem = load_codec(save_tokenizer(template=template), chat_template=True).prefix_problem()
    assert said in problem and bool(said) == bool(problem)


def test_without_a_template_there_is_no_second_turn(save_tokenizer: Save) -> None:
    assert load_codec(save_tokenizer(), chat_template=False).prefix_problem() == ""
