"""Case j1-unknown-key: a misspelt or misplaced key is refused before anything is loaded.

https://github.com/unslothai/unsloth/pull/10452
"""

import subprocess
import sys
from pathlib import Path

import pytest

GOOD = """\
[model]
path = "no/such/model"
[data]
path = "no/such/data.jsonl"
[loop]
steps = 1
[[env.rewards]]
name = "exact_match"
"""


def surefoot(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from surefoot.cli.main import main; main()"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("text", "overrides", "said"),
    [
        (f"lerning_rate = 1e-5\n{GOOD}", [], ["run.toml:1: lerning_rate", "optim.lr", "learning_rate"]),
        (f"{GOOD}[optim]\nlerning_rate = 1e-5\n", [], ["run.toml:10: optim.lerning_rate", "optim.lr", "learning_rate"]),
        (f"{GOOD}[rollout]\nwarmup_steps = 10\n", [], ["run.toml:10: rollout.warmup_steps", "optim.warmup"]),
        (f"{GOOD}[optim]\nweight-decay = 0.1\n", [], ["run.toml:10: optim.weight-decay", "optim.weight_decay"]),
        (GOOD, ["a.b.c=1"], ["override a.b.c=1: a.b.c is not a key", "the sections are model, "]),
        (f"{GOOD}[optim]\nlr = 1e-5\nlr = 1e-6\n", [], ["run.toml:11: optim.lr is set twice, first on line 10"]),
        (f'{GOOD}[optim]\nlr = "1e-5"\n', [], ["run.toml:10: optim.lr: expected float > 0", 'got string "1e-5"']),
        (f'{GOOD}[eval]\nbefore = "true"\n', [], ["run.toml:10: eval.before: expected boolean", 'got string "true"']),
    ],
)
def test_refused_before_the_model_is_looked_for(
    tmp_path: Path, text: str, overrides: list[str], said: list[str]
) -> None:
    run_file = tmp_path / "run.toml"
    run_file.write_text(text)
    done = surefoot("train", str(run_file), *overrides)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()  # one line, no traceback
    assert line.startswith("error: ")
    for part in said:
        assert part in line


def test_a_key_without_effect_is_warned_about(tmp_path: Path) -> None:
    run_file = tmp_path / "run.toml"
    run_file.write_text(f'{GOOD}[algo]\ncorrection = "none"\ntis_cap = 2.0\n')
    done = surefoot("check", str(run_file))
    assert 'warning: algo.tis_cap has no effect: algo.correction is "none"' in done.stderr
