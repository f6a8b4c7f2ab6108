"""A toy tokenizer saved as a model folder."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, processors
from transformers import PreTrainedTokenizerFast

VOCAB = ["<pad>", "<s>", "</s>", "<unk>", "[U]", "[A]", "[S]", "h", "i", " ", "a", "b", "ab", "?"]
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if m.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
    "{{ {'user': '[U]', 'assistant': '[A]', 'system': '[S]'}[m.role] }}{{ m.content }}"
    "{% endfor %}{% if add_generation_prompt %}[A]{% endif %}"
)


@pytest.fixture
def save_tokenizer(tmp_path: Path) -> Callable[..., Path]:
    """save(single="<s> $A", template=TEMPLATE): ids are places in VOCAB; `ab` is one token."""

    def save(single: str = "<s> $A", template: str | None = TEMPLATE) -> Path:
        vocab = {token: number for number, token in enumerate(VOCAB)}
        tokenizer = Tokenizer(models.BPE(vocab, [("a", "b")], unk_token="<unk>"))
        special = [(token, vocab[token]) for token in ("<s>", "</s>")]
        tokenizer.post_processor = processors.TemplateProcessing(single=single, special_tokens=special)
        tokenizer.decoder = decoders.Fuse()
        fast = PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            bos_token="<s>",
            eos_token="</s>",
            pad_token="<pad>",
            unk_token="<unk>",
            additional_special_tokens=["[U]", "[A]", "[S]"],
        )
        fast.chat_template = template
        fast.save_pretrained(tmp_path)
        return tmp_path

    return save
