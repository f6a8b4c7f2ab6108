"""`surefoot check`: resolved configuration, every problem, memory from headers alone."""

import json
import struct
import tomllib
from pathlib import Path

import pytest

from surefoot.cli.estimate import count_parameters, memory_items, read_shape, show_bytes
from surefoot.cli.main import run_command
from surefoot.config.load import load_config
from surefoot.types.errors import ModelError

CONFIG = {
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
    "vocab_size": 100,
}


def write_safetensors(path: Path, shapes: dict[str, list[int]]) -> None:
    header = json.dumps(
        {"__metadata__": {"format": "pt"}}
        | {name: {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]} for name, shape in shapes.items()}
    ).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(CONFIG))
    write_safetensors(model / "model-1.safetensors", {"a": [100, 8], "b": []})  # 801 with the scalar
    write_safetensors(model / "model-2.safetensors", {"c": [8, 8], "d": [0, 5]})  # 64
    path, prompts = tmp_path / "run.toml", tmp_path / "x.jsonl"
    prompts.write_text('{"prompt": "1 + 1", "label": "2"}\n')
    path.write_text(
        f'[model]\npath = "{model}"\n[data]\npath = "{prompts}"\n[loop]\nsteps = 1\n'
        '[[env.rewards]]\nname = "exact_match"\n'
    )
    return path


def test_a_good_file(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["check", str(run_file), "optim.lr=1e-5"]) == 0
    out, err = capsys.readouterr()
    config, memory = out.split("memory of each rank")
    assert tomllib.loads(config)["optim"]["lr"] == 1e-5
    assert "865 parameters x 4 bytes, on one rank" in memory
    assert out.endswith("no problems\n")
    assert err == ""


def test_every_problem_and_1(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["check", str(run_file), "rollout.group_size=1", "loop.steps=0", "model.path=none"]) == 1
    out, err = capsys.readouterr()
    assert tomllib.loads(out)["rollout"]["group_size"] == 1
    assert len([line for line in err.splitlines() if line.startswith("problem: ")]) == 3
    assert "problem: model.path: none: there is no such folder" in err
    assert "no problems" not in out


def test_values_that_are_not_valid_and_1(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["check", str(run_file), "optim.lrr=1", "loop.steps=x"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 2


def test_what_a_run_would_refuse_is_a_problem(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Weights that cannot be read, rewards and data that do not exist: said now, all of them, and not by the run."""
    (run_file.parent / "model" / "model-2.safetensors").write_bytes(b"\xff" * 20)
    overrides = ['data.path="nowhere.jsonl"', 'env.rewards=[{function="nomodule.f"}]']
    assert run_command(["check", str(run_file), *overrides]) == 1
    problems = [line for line in capsys.readouterr().err.splitlines() if line.startswith("problem: ")]
    assert len(problems) == 3
    for word, problem in zip(("model-2.safetensors", "nowhere.jsonl", "nomodule"), problems, strict=True):
        assert word in problem


def test_a_problem_is_told_once(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the section's own check, and not again by the code that would have used it."""
    assert run_command(["check", str(run_file), 'data.path=""', "env.rewards=[]"]) == 1
    problems = [line for line in capsys.readouterr().err.splitlines() if line.startswith("problem: ")]
    assert len(problems) == 2
    assert "data.path" in problems[0] and "env.rewards" in problems[1]


def test_a_label_that_no_response_matches_is_a_problem(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run_file.parent / "x.jsonl").write_text('{"prompt": "1 + 1", "label": null}\n')
    assert run_command(["check", str(run_file)]) == 1
    assert "the label is null" in capsys.readouterr().err


def test_parameters(run_file: Path, tmp_path: Path) -> None:
    assert count_parameters(run_file.parent / "model") == 865
    with pytest.raises(ModelError, match=r"holds no \*.safetensors"):
        count_parameters(tmp_path)


def test_memory(run_file: Path) -> None:
    """865 parameters in bf16 over 2 ranks, worked by hand."""
    config = load_config(
        run_file,
        *("precision.compute=bf16", "algo.kl_coef=0.1", "train.max_tokens=64", "train.logprob_chunk=32"),
        *("rollout.prompts_per_step=2", "rollout.group_size=4", "rollout.max_prompt_tokens=20"),
        "rollout.max_new_tokens=12",
    )
    items = {item.name: item.bytes for item in memory_items(read_shape(Path(config.model.path)), config, ranks=2)}
    assert items == {
        "master weights": 433 * 4,
        "gradients": 433 * 4,
        "optimizer state": 433 * 8,
        "compute weights": 865 * 2,
        "reference model": 865,
        "activations": 64 * 3 * (8 * 8 + 2 * 4 + 4 * 16) * 2,
        "logits": 2 * 32 * 100 * 4,
        "KV cache": 8 * 32 * 3 * 2 * 4 * 2,
    }


def test_other_names_of_the_same_things(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"n_embd": 8, "n_head": 2, "n_layer": 1, "vocab_size": 5}))
    write_safetensors(tmp_path / "a.safetensors", {"a": [3]})
    shape = read_shape(tmp_path)
    assert (shape.hidden, shape.intermediate, shape.kv_width, shape.layers) == (8, 32, 8, 1)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match=r"config.json: has none of hidden_size, n_embd"):
        read_shape(tmp_path)


def test_show_bytes() -> None:
    assert [show_bytes(size) for size in (0, 1023, 1024, 5 * 2**40)] == ["0.0 B", "1023.0 B", "1.0 KiB", "5.0 TiB"]
