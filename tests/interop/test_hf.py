"""Exported folders: bit for bit the trained masters, the same greedy tokens, and nothing half-written."""

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

from letters import LETTERS
from support import save_model, save_run
from surefoot.config.load import load_config
from surefoot.data.chat import load_codec
from surefoot.engines.inprocess.engine import InProcessEngine
from surefoot.interop.hf import export_checkpoint
from surefoot.loop.parts import build_trainer
from surefoot.loop.run import run
from surefoot.nn.digest import combined_digest, tensor_digest
from surefoot.observe.rundir import RunDir
from surefoot.train.checkpoint import load_loop_state, load_tensors, save_checkpoint
from surefoot.train.manifest import read_manifest
from surefoot.train.shard import World
from surefoot.train.state import restore, tensor_state, weights_digest
from surefoot.train.step import Trainer
from surefoot.types.errors import CheckpointError, ModelError, UsageError
from surefoot.types.rollout import Request, Sampling

LAUNCH = 'from surefoot.cli.main import main\n\nif __name__ == "__main__":\n    main()\n'
TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"
SHAPES: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama-untied": {"tied": False},
    "gpt2": {"kind": "gpt2", "spread": 0.6},
}


def train(folder: Path, *, text: str = "", **model: Any) -> RunDir:
    """Two steps of a small run, large enough to move every weight."""
    config = save_run(folder, text=f"optim = {{lr = 0.02}}\nloop = {{steps = 2}}\n{text}", **model)
    return RunDir(run(load_config(config)).run_dir)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], RunDir]:
    made: dict[str, RunDir] = {}

    def get(name: str) -> RunDir:
        if name not in made:
            made[name] = train(tmp_path_factory.mktemp(name), **SHAPES[name])
        return made[name]

    return get


def trainer_of(run_dir: RunDir, step: int) -> Trainer:
    """The trainer as a resume makes it from the checkpoint."""
    config = load_config(run_dir.config)
    trainer = build_trainer(config, World(0, 1, torch.device("cpu")), None)
    checkpoint = run_dir.checkpoints / f"step-{step:06d}"
    load_tensors(checkpoint, tensor_state(trainer))
    restore(trainer, load_loop_state(checkpoint)["trainer"])
    return trainer


def greedy_here(trainer: Trainer, model: Path, prompts: list[np.ndarray]) -> list[list[int]]:
    codec = load_codec(model, chat_template=False)
    engine = InProcessEngine(
        trainer.roles.policy.model, decode=codec.decode, eos_ids=codec.eos_ids, max_slots=8, shared=True
    )

    async def all_at_once() -> list[list[int]]:
        wanted = [engine.generate(Request(prompt, Sampling(0.0, 24, ()), 1)) for prompt in prompts]
        return [generation.token_ids_C.tolist() for generation in await asyncio.gather(*wanted)]

    return asyncio.run(all_at_once())


def greedy_there(folder: Path, prompts: list[np.ndarray]) -> list[list[int]]:
    hf = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    answers = []
    for prompt in prompts:
        ids = torch.tensor(prompt, dtype=torch.long)[None]
        out = hf.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=24, pad_token_id=0)
        answers.append(out[0, len(prompt) :].tolist())
    return answers


def loaded(folder: Path) -> dict[str, torch.Tensor]:
    """As the checkpoint names its masters."""
    hf = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    return {f"hf.{name}": param.detach() for name, param in hf.named_parameters()}


def digest_of(params: dict[str, torch.Tensor]) -> str:
    return combined_digest((name, tensor_digest(param)) for name, param in params.items())


@pytest.mark.parametrize("name", SHAPES)
def test_the_export_is_the_trained_policy(tmp_path: Path, runs: Callable[[str], RunDir], name: str) -> None:
    run_dir, out = runs(name), tmp_path / "deep" / "out"
    done = export_checkpoint(run_dir.path, out)
    assert done.path == out and done.checkpoint == run_dir.checkpoints / "step-000002"
    trainer, params = trainer_of(run_dir, 2), loaded(out)
    masters = dict(zip(trainer.masters.names, trainer.masters.tensors, strict=True))
    assert params.keys() == masters.keys()
    assert all(torch.equal(params[key], masters[key].detach()) for key in masters)
    assert digest_of(params) == done.digest == read_manifest(done.checkpoint).weights_digest
    start = AutoModelForCausalLM.from_pretrained(run_dir.path.parent / "model")
    assert not all(torch.equal(param, params[f"hf.{key}"]) for key, param in start.named_parameters())

    rng = np.random.default_rng(3)
    prompts = [rng.integers(3, 31, length).astype(np.int32) for length in (1, 2, 5, 9, 17)]
    ours = greedy_here(trainer, run_dir.path.parent / "model", prompts)
    assert greedy_there(out, prompts) == ours
    assert len({token for answer in ours for token in answer}) > 3, "the same token all over would prove little"

    assert done.parameters == sum(param.numel() for param in params.values())
    assert done.bytes == sum(path.stat().st_size for path in out.iterdir())
    assert ("lm_head.weight" in load_file(out / "model.safetensors")) == (name == "llama-untied")
    assert [path.name for path in out.parent.iterdir()] == ["out"], "nothing is left beside it"


def test_every_end_token_of_the_training_ends_an_answer(tmp_path: Path, runs: Callable[[str], RunDir]) -> None:
    """The model's files name 2, the tokenizer 0: in training both ended an answer."""
    run_dir = runs("llama")
    out = export_checkpoint(run_dir.checkpoints / "step-000001", tmp_path / "out").path
    assert json.loads((out / "generation_config.json").read_text())["eos_token_id"] == [0, 2]
    letters = "".join(LETTERS)
    tokenizer = AutoTokenizer.from_pretrained(out)
    assert tokenizer(letters).input_ids == list(range(1, 31)) and tokenizer.eos_token_id == 0


def test_what_computes_in_bf16_is_exported_as_its_masters(tmp_path: Path) -> None:
    run_dir = train(tmp_path, text='precision = {compute = "bf16"}')
    trainer = trainer_of(run_dir, 2)
    exact, rounded = (export_checkpoint(run_dir.path, tmp_path / f"o{d}", dtype=d) for d in ("", "bf16"))
    masters = dict(zip(trainer.masters.names, trainer.masters.tensors, strict=True))
    computing = dict(trainer.roles.policy.parameters())
    assert exact.digest == rounded.digest == read_manifest(exact.checkpoint).weights_digest
    for folder, wanted, dtype in ((exact.path, masters, "float32"), (rounded.path, computing, "bfloat16")):
        params = loaded(folder)
        assert {str(param.dtype) for param in params.values()} == {f"torch.{dtype}"}
        assert all(torch.equal(params[key], wanted[key].detach()) for key in wanted)
        assert json.loads((folder / "config.json").read_text())["dtype"] == dtype


def test_fp64_stays_fp64_and_rounds_to_what_is_asked(tmp_path: Path) -> None:
    run_dir = train(tmp_path, text='precision = {compute = "fp64"}')
    params = loaded(export_checkpoint(run_dir.path, tmp_path / "wide").path)
    assert digest_of(params) == read_manifest(run_dir.checkpoints / "step-000002").weights_digest
    narrow = loaded(export_checkpoint(run_dir.path, tmp_path / "narrow", dtype="fp32").path)
    assert {param.dtype for param in params.values()} == {torch.float64}
    assert all(torch.equal(narrow[key], params[key].float()) for key in params)


def test_parameters_that_a_model_keeps_wide_are_proved_by_what_was_asked(
    tmp_path: Path, runs: Callable[[str], RunDir], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LlamaForCausalLM, "_keep_in_fp32_modules_strict", {"norm"})
    params = loaded(export_checkpoint(runs("llama").path, tmp_path / "out", dtype="bf16").path)
    assert {param.dtype for param in params.values()} == {torch.float32, torch.bfloat16}


def test_a_checkpoint_of_two_ranks(tmp_path: Path, torchrun: Callable[..., str]) -> None:
    script = tmp_path / "surefoot_main.py"
    script.write_text(LAUNCH, encoding="utf8")
    torchrun(script, "train", str(save_run(tmp_path, text="loop = {steps = 1}")))
    checkpoint = tmp_path / "run" / "checkpoints" / "step-000001"
    assert len(list((checkpoint / "tensors").glob("*.distcp"))) == 2
    out = export_checkpoint(tmp_path / "run" / "checkpoints", tmp_path / "out").path
    assert digest_of(loaded(out)) == read_manifest(checkpoint).weights_digest


def test_files_of_the_model_folder_come_as_they_are(tmp_path: Path, runs: Callable[[str], RunDir]) -> None:
    """Older spellings, a quantization that no longer is, end tokens and settings of generation, a chat template."""
    source = shutil.copytree(runs("llama").path.parent / "model", tmp_path / "model")
    config = json.loads((source / "config.json").read_text())
    del config["dtype"]
    rope = config.pop("rope_parameters")["rope_theta"]
    leftover = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    older = {"torch_dtype": "bfloat16", "rope_theta": rope, "quantization_config": leftover, "temperature": 0.5}
    (source / "config.json").write_text(json.dumps(config | older))
    (source / "generation_config.json").write_text(
        json.dumps({"do_sample": False, "top_p": 0.9, "eos_token_id": [2, 5]})
    )
    (source / "chat_template.jinja").write_text(TEMPLATE)
    (source / "notes.md").write_text("not the model's")
    out = export_checkpoint(runs("llama").path, tmp_path / "out", model=source).path

    written = json.loads((out / "config.json").read_text())
    assert written == config | {"dtype": "float32", "torch_dtype": "float32", "rope_theta": rope, "temperature": 0.5}
    generation = json.loads((out / "generation_config.json").read_text())
    assert generation == {"do_sample": False, "top_p": 0.9, "eos_token_id": [0, 2, 5]}
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        assert (out / name).read_bytes() == (source / name).read_bytes()
    assert sorted(path.name for path in out.iterdir()) == [
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    turns = [{"role": "user", "content": "ab"}]
    assert AutoTokenizer.from_pretrained(out).apply_chat_template(turns, tokenize=False) == "ab"


def test_a_tokenizer_that_does_not_come_over_is_noticed(
    tmp_path: Path, runs: Callable[[str], RunDir], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file under a name that is not known here."""
    source = shutil.copytree(runs("llama").path.parent / "model", tmp_path / "model")
    (source / "chat_template.jinja").write_text(TEMPLATE)
    monkeypatch.setattr("surefoot.interop.hf.TOKENIZER_FILES", ("tokenizer*",))
    with pytest.raises(CheckpointError, match="its tokenizer has another chat template"):
        export_checkpoint(runs("llama").path, tmp_path / "out", model=source)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_weights_that_were_not_the_saved_ones_are_refused(tmp_path: Path, runs: Callable[[str], RunDir]) -> None:
    copy = RunDir(Path(shutil.copytree(runs("llama").path, tmp_path / "run")))
    manifest = copy.checkpoints / "step-000002" / "MANIFEST.json"
    right = read_manifest(manifest.parent).weights_digest
    manifest.write_text(manifest.read_text().replace(right, "0" * len(right)))
    with pytest.raises(CheckpointError, match="step-000002: its weights are not those its manifest speaks of"):
        export_checkpoint(copy.path, tmp_path / "out")
    assert not (tmp_path / "out").exists() and [p.name for p in tmp_path.iterdir()] == ["run"]


def test_what_is_written_wrong_is_noticed(
    tmp_path: Path, runs: Callable[[str], RunDir], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that rounds: the folder would load and be another policy."""
    save = LlamaForCausalLM.save_pretrained

    def rounding(model: LlamaForCausalLM, folder: Path) -> None:
        state = {name: tensor.bfloat16().float() for name, tensor in model.state_dict().items()}
        save(model, folder, state_dict=state)

    monkeypatch.setattr(LlamaForCausalLM, "save_pretrained", rounding)
    with pytest.raises(CheckpointError, match="loaded back, its weights are not those that were written"):
        export_checkpoint(runs("llama-untied").path, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_numbers_too_large_for_the_dtype_are_named(tmp_path: Path, runs: Callable[[str], RunDir]) -> None:
    trainer = trainer_of(runs("llama"), 2)
    with torch.no_grad():
        trainer.masters.tensors[3][1, 2] = -1e7
    checkpoint = save_checkpoint(
        tmp_path,
        3,
        tensors=tensor_state(trainer),
        loop_state={},
        weights_digest=weights_digest(trainer),
        keep_last=1,
    )
    how = {"model": runs("llama").path.parent / "model"}
    name = trainer.masters.names[3].replace(".", r"\.")
    with pytest.raises(UsageError, match=rf"--dtype fp16: {name} holds numbers of up to 1e\+07, too large for it"):
        export_checkpoint(checkpoint, tmp_path / "out", dtype="fp16", **how)
    assert not (tmp_path / "out").exists()
    assert loaded(export_checkpoint(checkpoint, tmp_path / "out", **how).path)[trainer.masters.names[3]][1, 2] == -1e7


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ({"tied": False}, r"hf\.lm_head\.weight is \[31, 32\], the checkpoint's none"),
        ({"kind": "gpt2"}, r"is none, the checkpoint's \[|the checkpoint's none"),
    ],
)
def test_another_model_is_refused(
    tmp_path: Path, runs: Callable[[str], RunDir], shape: dict[str, Any], said: str
) -> None:
    source = Path(shutil.copytree(runs("llama").path.parent / "model", tmp_path / "model"))
    save_model(source, **shape)
    with pytest.raises(UsageError, match=rf"model: not the model that was trained: .*({said})"):
        export_checkpoint(runs("llama").path, tmp_path / "out", model=source)


def test_the_folder_must_be_empty_and_a_rest_beside_it_gives_way(tmp_path: Path, runs: Callable[[str], RunDir]) -> None:
    run_dir, out = runs("llama"), tmp_path / "out"
    (tmp_path / ".out.tmp").mkdir()
    (tmp_path / ".out.tmp" / "rest").write_text("of a killed export")
    out.mkdir()
    export_checkpoint(run_dir.path, out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert "rest" not in before and not (tmp_path / ".out.tmp").exists()
    with pytest.raises(UsageError, match=r"out: exists and is not an empty folder"):
        export_checkpoint(run_dir.path, out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    with pytest.raises(UsageError, match=r"config.json: exists and is not an empty folder"):
        export_checkpoint(run_dir.path, out / "config.json")


def test_arguments_that_name_nothing(tmp_path: Path, runs: Callable[[str], RunDir]) -> None:
    run_dir = Path(shutil.copytree(runs("llama").path, tmp_path / "run"))
    last = run_dir / "checkpoints" / "step-000002"

    def said(checkpoint: Path, **how: Any) -> str:
        with pytest.raises((UsageError, CheckpointError)) as caught:
            export_checkpoint(checkpoint, tmp_path / "out", **how)
        assert not (tmp_path / "out").exists() and "\n" not in str(caught.value)
        return str(caught.value)

    assert said(tmp_path / "nothing") == f"{tmp_path}/nothing: there is no such folder"
    assert said(tmp_path) == f"{tmp_path}: holds no complete checkpoint"
    with pytest.raises(ModelError, match="nowhere: no such model folder"):
        export_checkpoint(run_dir, tmp_path / "out", model=tmp_path / "nowhere")
    config = run_dir / "config.toml"
    text = config.read_text()
    config.write_text(text.replace("/model", "/moved"))
    assert f"{config}: model.path = " in said(last) and said(last).endswith("seen from here: name it with --model")
    config.write_text("[model]\n")
    assert said(last) == f"{config}: model.path cannot be read ('path'): name the model folder with --model"
    config.unlink()
    assert said(last) == f"{config}: missing, so name the model folder with --model"
    (last / "loop.json").unlink()
    assert said(last) == f"{last}/loop.json: missing"
    (last / "MANIFEST.json").unlink()
    assert said(last) == f"{last}/MANIFEST.json: missing, so the checkpoint was never finished"


def test_the_newest_complete_one_is_taken_and_what_is_passed_over_is_told(
    tmp_path: Path, runs: Callable[[str], RunDir]
) -> None:
    run_dir = Path(shutil.copytree(runs("llama").path, tmp_path / "run"))
    (run_dir / "checkpoints" / "step-000002" / "loop.json").unlink()
    lines: list[str] = []
    done = export_checkpoint(run_dir / "checkpoints", tmp_path / "out", say=lines.append)
    assert done.checkpoint.name == "step-000001"
    assert lines[0] == f"ignored: {run_dir}/checkpoints/step-000002/loop.json: missing"
    assert lines[1].startswith(f"{run_dir}/checkpoints/step-000001: weights; ")
    copy = shutil.copytree(done.checkpoint, tmp_path / "best")
    source = runs("llama").path.parent / "model"
    assert export_checkpoint(copy, tmp_path / "again", model=source).digest == done.digest
