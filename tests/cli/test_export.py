"""`surefoot export`: one line says what was written, one line what was wrong."""

import json
from pathlib import Path

import pytest

from support import save_run
from surefoot.cli.main import run_command
from surefoot.config.load import load_config
from surefoot.loop.run import run
from surefoot.train.manifest import read_manifest


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(load_config(save_run(tmp_path_factory.mktemp("run"), text="loop = {steps = 1}"))).run_dir


def test_export_says_what_it_wrote(run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, checkpoint = tmp_path / "out", run_dir / "checkpoints" / "step-000001"
    assert run_command(["export", str(run_dir), str(out), "--dtype", "bf16"]) == 0
    said = capsys.readouterr()
    size = sum(path.stat().st_size for path in out.iterdir())
    digest = read_manifest(checkpoint).weights_digest
    *_, last = said.out.splitlines()
    assert last.startswith(f"{out}: ") and last.endswith(f" parameters, {size:,} bytes, weights {digest}")
    assert f"{checkpoint}: weights; {run_dir.parent}/model: architecture and tokenizer" in said.err
    assert json.loads((out / "config.json").read_text())["dtype"] == "bfloat16"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["{run}", "{tmp}/out", "--dtype", "fp8"], 2, "--dtype"),
        (["{run}", "{run}"], 2, "error: {run}: exists and is not an empty folder"),
        (["{tmp}/nothing", "{tmp}/out"], 2, "error: {tmp}/nothing: there is no such folder"),
        (["{run}", "{tmp}/out", "--model", "{tmp}/other"], 2, "error: {tmp}/other: no such model folder"),
        (["{run}"], 2, "DIR"),
    ],
)
def test_export_refuses(
    run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    assert run_command(["export", *(each.format(run=run_dir, tmp=tmp_path) for each in arguments)]) == code
    error = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(error) == 1 and said.format(run=run_dir, tmp=tmp_path) in error[0]
    assert not (tmp_path / "out").exists()


def test_a_relative_model_path_starts_where_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = save_run(tmp_path, text='model = {path = "model"}\nloop = {steps = 1}')
    monkeypatch.chdir(tmp_path)
    run(load_config(config))
    assert run_command(["export", "run", "out"]) == 0
    monkeypatch.chdir(tmp_path / "run" / "checkpoints" / "step-000001")
    assert run_command(["export", ".", "../out"]) == 2
    assert "model.path = 'model' is no folder, seen from here: name it with --model" in capsys.readouterr().err
    assert run_command(["export", ".", str(tmp_path / "again"), "--model", "../../../model"]) == 0
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (
        tmp_path / "out" / "model.safetensors"
    ).read_bytes()
