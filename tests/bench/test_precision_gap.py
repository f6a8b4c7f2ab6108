"""`benchmarks/precision_gap.py`: the same tokens scored twice, in each precision. Runs a tiny model on the CPU."""

import importlib.util
import json
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from letters import LETTERS
from support import save_model, save_tokenizer
from surefoot.bench.shapes import SHAPES, pick_world
from surefoot.config.schema import PrecisionConfig

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "precision_gap.py"
SHORT = ["--device", "cpu", "--max-new-tokens", "32", "--group-size", "4", "--max-slots", "16", "--max-tokens", "256"]
RANDOM = ["--shape", "tiny", "--prompt-tokens", "8", *SHORT]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("precision_gap", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["precision_gap"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def measured(script: ModuleType) -> dict[str, Any]:
    """By precision, with what each sampled."""
    options = script.parse([*RANDOM, "--tokens", "600", "--precisions", "bf16,fp16,fp32,fp64"])
    return {gap.precision: gap for gap in (script.measure(options, precision) for precision in options.precisions)}


def test_the_gap_is_rounding(measured: dict[str, Any]) -> None:
    for figure in ("mean", "p99", "max", "kl"):
        values = [getattr(measured[name], figure) for name in ("bf16", "fp16", "fp32")]
        assert values == sorted(values, reverse=True), figure
    assert 0 < measured["fp32"].max < 1e-4
    assert measured["fp64"].max < 1e-6  # the record keeps the sampler's log-probs in fp32
    assert 2 < measured["bf16"].mean / measured["fp16"].mean < 32  # 8 bits against 11


def test_as_many_tokens_as_asked_and_a_distribution_that_is_not_uniform(measured: dict[str, Any]) -> None:
    for gap in measured.values():
        assert gap.tokens == 640  # 600 in groups of 4 x 32
        assert 0.3 < gap.entropy < 0.8 * math.log(SHAPES["tiny"].vocabulary)
        assert gap.peak_gib is None


def test_json_names_settings_figures_and_ratios(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main([*RANDOM, "--tokens", "100", "--precisions", "bf16,fp16", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["settings"]["shape"] == "tiny" and record["settings"]["torch"]
    assert [gap["precision"] for gap in record["gaps"]] == ["bf16", "fp16"]
    wide, narrow = record["gaps"]
    assert record["bf16_over_fp16"] == {name: wide[name] / narrow[name] for name in ("mean", "p99", "max", "kl")}


def test_prompts_of_a_file_end_where_the_policy_ends_them(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two prompts and 300 tokens: they are drawn again and again, each time with other random numbers."""
    save_tokenizer(save_model(tmp_path / "model"))
    rows = [json.dumps({"prompt": LETTERS[:3]}), json.dumps({"prompt": LETTERS[4:9]})]
    (tmp_path / "prompts.jsonl").write_text("\n".join(rows))
    arguments = ["--model", str(tmp_path / "model"), "--prompts", str(tmp_path / "prompts.jsonl"), *SHORT]
    options = script.parse([*arguments, "--tokens", "300"])
    policy = script.load(options, pick_world("cpu"), PrecisionConfig())
    samples = script.asyncio.run(script.sample(options, policy))
    lengths = [int(sample.loss_mask_L.sum()) for sample in samples]
    assert sum(lengths) >= 300 and min(lengths) < 32  # an end token came
    texts = {sample.token_ids_L.tobytes() for sample in samples}
    assert len(texts) > len(samples) / 2
    assert {int(np.argmax(sample.loss_mask_L)) for sample in samples} == {3, 5}
    assert script.main([*arguments, "--tokens", "50", "--precisions", "fp32"]) == 0
    table = capsys.readouterr().out
    assert "\nfp32 " in table and "bf16 / fp16" not in table


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--shape", "tiny", "--max-tokens", "99", "--max-new-tokens", "90", "--prompt-tokens", "11"],
            "--max-tokens 99",
        ),
        (["--shape", "tiny", "--prompts", "p.jsonl"], "--prompts p.jsonl: a file needs a tokenizer"),
        (["--model", "none"], "model.path: none is not a model folder"),
    ],
)
def test_misuse_is_one_line_and_2(
    script: ModuleType, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main([*arguments, "--device", "cpu"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and said in line


def test_no_prompt_short_enough(script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_tokenizer(save_model(tmp_path / "model"))
    (tmp_path / "p.jsonl").write_text(json.dumps({"prompt": LETTERS[:9]}))
    arguments = ["--model", str(tmp_path / "model"), "--prompts", str(tmp_path / "p.jsonl"), "--prompt-tokens", "8"]
    assert script.main([*arguments, *SHORT]) == 2
    assert "prompt_too_long: 9 > 8 tokens" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["--shape", "tiny", "--model", "m"], ["--shape", "tiny", "--tokens", "0"]])
def test_options_are_checked(script: ModuleType, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        script.parse(arguments)
    assert ended.value.code == 2
