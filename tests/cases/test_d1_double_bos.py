"""d1-double-bos, https://github.com/huggingface/trl/issues/3853

The template writes the BOS and the tokenizer adds another. Prompt ids are made once, here, and the same array goes to
the sampler and into the sample; this checks that there is one BOS in it. Its kind: tests/data/test_chat.py.
"""

import asyncio
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, processors
from transformers import PreTrainedTokenizerFast

from surefoot.config.schema import RewardConfig
from surefoot.data import load_codec, samples_from_groups
from surefoot.envs import Rubric, run_group
from surefoot.types.rollout import Draw, Generation, IntArray, Message, Prompt, Request, Sampling

BOS, U, A, LOWER_H, LOWER_I = 1, 2, 3, 4, 5


def save(folder: Path) -> Path:
    vocab = {"<unk>": 0, "<s>": BOS, "[U]": U, "[A]": A, "h": LOWER_H, "i": LOWER_I}
    tokenizer = Tokenizer(models.BPE(vocab, [], unk_token="<unk>"))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", BOS)])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", unk_token="<unk>", additional_special_tokens=["[U]", "[A]"]
    )
    fast.chat_template = "<s>{% for m in messages %}[U]{{ m.content }}{% endfor %}[A]"
    fast.save_pretrained(folder)
    return folder


def sampled_and_trained(folder: Path, *, chat: bool) -> tuple[list[int], list[int]]:
    """Prompt ids the sampler was given, and those of the training sample."""
    codec = load_codec(folder, chat)
    prompt = Prompt("p", "", (Message("user", "hi"),), {"label": "h", "metadata": {}})
    asked: list[IntArray] = []

    async def generate(request: Request) -> Generation:
        asked.append(request.prompt_ids_L)
        one = np.ones(1, dtype=np.int32)
        return Generation(one * LOWER_H, one.astype(np.float32), one, "length")

    group = asyncio.run(
        run_group(
            Draw(0, 0, 0, prompt),
            codec.encode(prompt.messages),
            [0],
            generate=generate,
            codec=codec,
            rubric=Rubric.from_config([RewardConfig(name="exact_match")], timeout=60.0),
            sampling=Sampling(1.0, 1, ()),
        )
    )
    (sample,) = samples_from_groups([group], {(0, 0): 1.0})
    return asked[0].tolist(), sample.token_ids_L[~sample.loss_mask_L].tolist()


def test_one_bos_in_a_conversation(tmp_path: Path) -> None:
    asked, trained = sampled_and_trained(save(tmp_path), chat=True)
    assert asked == trained == [BOS, U, LOWER_H, LOWER_I, A]


def test_one_bos_in_a_plain_string(tmp_path: Path) -> None:
    asked, trained = sampled_and_trained(save(tmp_path), chat=False)
    assert asked == trained == [BOS, LOWER_H, LOWER_I]
