"""Run files with mistakes: what is said, and where. Expected texts were written from the rules, not from the code."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.config.keys import Key, all_keys
from surefoot.config.load import load_config, resolve_config
from surefoot.types.errors import ConfigError, UsageError

GOOD = """\
[model]
path = "m"

[data]
path = "x.jsonl"

[loop]
steps = 3

[[env.rewards]]
name = "exact_match"
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(text, encoding="utf8")
    return path


def problems(tmp_path: Path, text: str, *overrides: str) -> list[str]:
    """The lines of the error, without the folder."""
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config(path, *overrides)
    return str(caught.value).replace(f"{tmp_path}/", "").splitlines()


def test_good_file_loads(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, GOOD))
    assert (config.model.path, config.loop.steps, config.env.rewards[0].name) == ("m", 3, "exact_match")
    assert config.optim.lr == 1e-6  # a default


def test_path_may_be_text(tmp_path: Path) -> None:
    assert load_config(str(write(tmp_path, GOOD))).loop.steps == 3


@pytest.mark.parametrize(
    ("line", "place", "suggestion"),
    [
        ("[optim]\nlerning_rate = 1e-5", "run.toml:13: optim.lerning_rate", "optim.lr (also known as learning_rate)"),
        ("[rollout]\nwarmup_steps = 5", "run.toml:13: rollout.warmup_steps", "optim.warmup"),
        ("[optim]\nweight-decay = 0.1", "run.toml:13: optim.weight-decay", "optim.weight_decay"),
        ("[optim]\nlearning_rate = 1.0", "run.toml:13: optim.learning_rate", "optim.lr"),
        ("[algo]\ntemperature = 1.0", "run.toml:13: algo.temperature", "rollout.temperature"),
        ("[rollout]\nnum_generations = 8", "run.toml:13: rollout.num_generations", "rollout.group_size"),
        (
            "[rollout]\nmax_completion_length = 8",
            "run.toml:13: rollout.max_completion_length",
            "rollout.max_new_tokens",
        ),
        ("[algo]\nbeta = 0.1", "run.toml:13: algo.beta", "algo.kl_coef"),
        ("[algo]\nepsilon = 0.1", "run.toml:13: algo.epsilon", "algo.clip_low"),
        ("[train]\nlr = 1e-5", "run.toml:13: train.lr", "optim.lr"),
        ("[optm]\nlr = 1e-5", "run.toml:12: optm", "[optim]"),
        ("[grpo]\nbeta = 0.1", "run.toml:13: grpo.beta", "algo.kl_coef"),
        ("[[env.rewards]]\nname = 'a'\nwieght = 2.0", "run.toml:14: env.rewards.1.wieght", "env.rewards.1.weight"),
        ("[[eval.sets]]\nname='a'\npath='b'\nsample = 2", "run.toml:15: eval.sets.0.sample", "eval.sets.0.samples"),
    ],
)
def test_unknown_key_names_line_and_nearest(tmp_path: Path, line: str, place: str, suggestion: str) -> None:
    (said,) = problems(tmp_path, f"{GOOD}{line}\n")
    assert said.startswith(f"{place} is not a key; did you mean {suggestion}")


def test_top_level_key(tmp_path: Path) -> None:
    (said,) = problems(tmp_path, f"lerning_rate = 1e-5\n{GOOD}")
    assert said == "run.toml:1: lerning_rate is not a key; did you mean optim.lr (also known as learning_rate)?"


def test_nothing_near_lists_what_is_valid(tmp_path: Path) -> None:
    (said,) = problems(tmp_path, f"{GOOD}[checkpoint]\nzzzz = 1\n")
    assert said == "run.toml:13: checkpoint.zzzz is not a key; [checkpoint] has every, keep_last, keep_every"


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("a.b.c=1", "override a.b.c=1: a.b.c is not a key; there is no [a]; the sections are model, reference, data"),
        (
            "optim.lerning_rate=1",
            "override optim.lerning_rate=1: optim.lerning_rate is not a key; did you mean optim.lr",
        ),
        ("optim.lr.x=1", "override optim.lr.x=1: optim.lr.x is not a key; optim.lr holds a value, not a table"),
        ("optim.lr", "override optim.lr: expected key.path=value"),
        ("optim.lr=", "override optim.lr=: expected key.path=value"),
        ("=1", "override =1: '' is not a key"),
        ("env.rewards.4.weight=1.0", "override env.rewards.4.weight=1.0: there is no env.rewards.4"),
        ("env.rewards.name='a'", "override env.rewards.name='a': env.rewards is a list"),
        ('rollout.stop=["a"', 'override rollout.stop=["a": the value is not TOML'),
        ("optim.lr=fast", 'override optim.lr=fast: optim.lr: expected float > 0, got string "fast"'),
        ("optim.lr='1e-5'", "override optim.lr='1e-5': optim.lr: expected float > 0, got string \"1e-5\""),
        ("loop.steps=2.5", "override loop.steps=2.5: loop.steps: expected integer >= 0, got float 2.5"),
        ("loop.steps=true", "override loop.steps=true: loop.steps: expected integer >= 0, got boolean true"),
        (
            "data.shuffle=True",
            'override data.shuffle=True: data.shuffle: expected boolean (true or false), got string "T',
        ),
        ("data.shuffle=1", "override data.shuffle=1: data.shuffle: expected boolean (true or false), got integer 1"),
        ("loop.name=5", "override loop.name=5: loop.name: expected string, got integer 5"),
        (
            "algo.estimator=rlo",
            'override algo.estimator=rlo: algo.estimator: expected one of "grpo", "dr_grpo", "rloo"',
        ),
        ("rollout.group_size=1", "override rollout.group_size=1: rollout.group_size: a group of 1"),
    ],
)
def test_bad_override_is_named(tmp_path: Path, override: str, said: str) -> None:
    (line,) = problems(tmp_path, GOOD, override)
    assert line.startswith(said)


def test_override_given_twice(tmp_path: Path) -> None:
    (said,) = problems(tmp_path, GOOD, "optim.lr=1e-5", "optim.lr=1e-4")
    assert said == "override optim.lr=1e-4: optim.lr is also set by override optim.lr=1e-5"
    (said,) = problems(tmp_path, GOOD, "optim={lr = 1e-5}", "optim.lr=1e-4")
    assert said.startswith("override optim.lr=1e-4: optim is also set by override optim={lr")


def test_overrides_apply(tmp_path: Path) -> None:
    config = load_config(
        write(tmp_path, GOOD),
        "optim.lr=1e-5",
        "algo.estimator=rloo",
        'rollout.stop=["a", "b"]',
        "data.path=some/where=x.jsonl",
        "data.shuffle=false",
        "env.rewards.0.weight=2.0",
        "env.rewards.0.params.strip=false",
        "eval.sets=[{name = 'held', path = 'y.jsonl'}]",
        "data.template='{prompt}\\nGo.'",
    )
    assert (config.optim.lr, config.algo.estimator, config.rollout.stop) == (1e-5, "rloo", ["a", "b"])
    assert (config.data.path, config.data.shuffle) == ("some/where=x.jsonl", False)
    assert (config.env.rewards[0].weight, config.env.rewards[0].params) == (2.0, {"strip": False})
    assert config.eval.sets[0].path == "y.jsonl"


def test_override_mends_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.replace("steps = 3", 'steps = "3"'))
    assert load_config(path, "loop.steps=4").loop.steps == 4


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ('steps = "3"', 'run.toml:8: loop.steps: expected integer >= 0, got string "3"; write it without quotes'),
        ("steps = 3.0", "run.toml:8: loop.steps: expected integer >= 0, got float 3.0"),
        ("steps = -1", "run.toml:8: loop.steps: expected integer >= 0, got integer -1"),
        ("steps = true", "run.toml:8: loop.steps: expected integer >= 0, got boolean true"),
        ("steps = [3]", "run.toml:8: loop.steps: expected integer >= 0, got array [3]"),
        ("steps = 3\nname = 7", "run.toml:9: loop.name: expected string, got integer 7"),
        ("steps = 3\nname = 2020-01-01", 'run.toml:9: loop.name: expected string, got date or time "2020-01-01"'),
    ],
)
def test_wrong_type_names_line_type_and_value(tmp_path: Path, bad: str, said: str) -> None:
    assert problems(tmp_path, GOOD.replace("steps = 3", bad)) == [said]


@pytest.mark.parametrize(
    ("added", "said"),
    [
        ('[data]\nshuffle = "true"', "expected boolean (true or false), got string"),
        ("[algo]\nclip_low = nan", "run.toml:13: algo.clip_low: expected float > 0, got float NaN"),
        ("[optim]\nbeta1 = 1.5", "run.toml:13: optim.beta1: expected float >= 0 and <= 1, got float 1.5"),
        ('[rollout]\nstop = "x"', 'rollout.stop: expected array of strings, got string "x"; put it in brackets'),
        ("[rollout]\nstop = ['x', 3]", "run.toml:13: rollout.stop.1: expected string, got integer 3"),
        (
            "[eval]\nsets = {name = 'a'}",
            'eval.sets: expected array of tables, got table {"name": "a"}; write [[eval.sets]]',
        ),
        ('[optim]\nschedule = "cosin"', 'got string "cosin"; did you mean "cosine"?'),
        ("[[eval.sets]]\npath = 'a'", "run.toml:12: eval.sets.0.name is missing: section [[eval.sets]] needs name"),
        ("[eval]\nsets = [\n  {name = 'a', path = 'b'},\n  {nmae = 'a', path = 'b'},\n]", "run.toml:15: eval.sets.1"),
    ],
)
def test_wrong_values_of_other_kinds(tmp_path: Path, added: str, said: str) -> None:
    text = GOOD.replace("[data]\n", "") if added.startswith("[data]") else GOOD
    assert any(said in line for line in problems(tmp_path, f"{text}{added}\n"))


def test_duplicate_key_does_not_hide_other_problems(tmp_path: Path) -> None:
    said = problems(tmp_path, GOOD.replace("steps = 3", 'steps = 3\nseed = "1"\nsteps = 4') + "[optim]\nlrr = 1.0\n")
    assert said == [
        'run.toml:9: loop.seed: expected integer >= 0, got string "1"; write it without quotes',
        "run.toml:10: loop.steps is set twice, first on line 8",
        "run.toml:15: optim.lrr is not a key; did you mean optim.lr?",
    ]


def test_section_twice(tmp_path: Path) -> None:
    said = problems(tmp_path, f"{GOOD}[loop]\nname = 'x'\n")
    assert said == ["run.toml:12: [loop] stands twice, first on line 7"]


def test_syntax_errors_are_all_told_with_the_rest(tmp_path: Path) -> None:
    said = problems(tmp_path, GOOD.replace("steps = 3", "steps = 3x\nname = \nsed = 1") + "[optim]\nlr = '1'\n")
    assert [line.partition(" ")[0] for line in said] == ["run.toml:8:", "run.toml:9:", "run.toml:10:", "run.toml:15:"]
    assert "did you mean loop.seed" in said[2]


@pytest.mark.parametrize("tail", ['x = """never\nends', "x = [1,\n2", "[optim\nlr = 1.0"])
def test_unclosed_text_has_a_line(tmp_path: Path, tail: str) -> None:
    (said,) = problems(tmp_path, f"{GOOD}{tail}\n")
    assert said.startswith("run.toml:12: ")


def test_missing_file() -> None:
    with pytest.raises(UsageError, match=r"nowhere/run.toml: cannot be read: No such file"):
        load_config("nowhere/run.toml")


def test_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(GOOD.encode() + b'x = "\xff"\n')
    with pytest.raises(ConfigError, match=r"run.toml:12: not UTF-8"):
        load_config(path)


def test_byte_order_mark_and_crlf_keep_line_numbers(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(b"\xef\xbb\xbf" + f"{GOOD}[optim]\nlrr = 1.0\n".replace("\n", "\r\n").encode())
    with pytest.raises(ConfigError, match=r"run.toml:13: optim.lrr"):
        load_config(path)


def test_missing_keys_name_their_section(tmp_path: Path) -> None:
    said = problems(tmp_path, GOOD.replace('path = "m"', 'device = "cpu"'))
    assert said == ["run.toml:1: model.path is missing: section [model] needs path"]
    said = problems(tmp_path, "[loop]\nsteps = 1\n")
    assert said == [
        "run.toml: section [model] is missing; it needs path",
        "run.toml: section [data] is missing",
        "run.toml: section [env] is missing",
    ]


def test_everything_at_once(tmp_path: Path) -> None:
    text = "[model]\npath = 1\n[data]\n[rollout]\ngroup_size = 1\n[env]\n[optm]\nlr = 1.0\n"
    said = problems(tmp_path, text, "algo.kl_cof=1", "precision.min_scale=4.0", "precision.max_scale=2.0")
    expected = [
        "run.toml:2: model.path: expected string, got integer 1",
        'run.toml:3: data.path: source "jsonl" needs a file',
        "run.toml:5: rollout.group_size: a group of 1 has nothing",
        "run.toml:6: env.rewards: no reward: add [[env.rewards]]",
        "run.toml:7: optm is not a key; did you mean [optim]?",
        "run.toml: loop.steps: the run has no end: set loop.steps",
        "override algo.kl_cof=1: algo.kl_cof is not a key; did you mean algo.kl_coef?",
        "override precision.min_scale=4.0: precision.min_scale: 4.0 is above precision.max_scale = 2.0",
    ]
    assert len(said) == len(expected)
    for line, start in zip(said, expected, strict=True):
        assert line.startswith(start)


def test_a_problem_is_not_told_twice(tmp_path: Path) -> None:
    """A key of the wrong type, or misspelt, is not also told as unset."""
    said = problems(tmp_path, GOOD.replace("steps = 3", "stpes = 3"))
    assert said == ["run.toml:8: loop.stpes is not a key; did you mean loop.steps?"]
    said = problems(tmp_path, GOOD.replace("steps = 3", "seed = 3"), "loop.stpes=3")
    assert said == ["override loop.stpes=3: loop.stpes is not a key; did you mean loop.steps?"]


def test_resolve_keeps_a_configuration_that_only_contradicts_itself(tmp_path: Path) -> None:
    resolution = resolve_config(write(tmp_path, GOOD), "rollout.group_size=1")
    assert resolution.config is not None
    assert resolution.config.rollout.group_size == 1
    assert len(resolution.problems) == 1


def leaves() -> list[Key]:
    return [key for key in all_keys().values() if key.table is None]


def headers_of(section: str) -> list[str]:
    """The lines that open a section; a list of tables opens its outer list first."""
    parts = section.split(".") if section else []
    names = [".".join(parts[: end + 1]) for end in range(len(parts))]
    lists = [f"[[{name}]]" for name in names if all_keys()[name].is_list]
    return lists or [f"[{section}]" if section else ""]


@pytest.mark.parametrize("key", all_keys().values(), ids=lambda key: key.name)
def test_a_dropped_letter_is_refused_wherever_it_falls(tmp_path: Path, key: Key) -> None:
    valid = {k.leaf for k in all_keys().values() if k.section == key.section}
    misspelt = {key.leaf[:i] + key.leaf[i + 1 :] for i in range(len(key.leaf))} - valid - {""}
    assert misspelt
    headers = headers_of(key.section)
    path = write(tmp_path, "\n".join([*headers, *(f"{name} = 1" for name in misspelt)]))
    found = resolve_config(path).problems
    for number, name in enumerate(misspelt, start=len(headers) + 1):
        assert any(f"run.toml:{number}: " in line and f"{name} is not a key" in line for line in found), name


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_a_key_in_a_wrong_section_is_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(leaves()))
    sections = [k.name for k in all_keys().values() if k.table is not None and not k.is_list]
    valid = {k.name for k in all_keys().values()}
    section = data.draw(st.sampled_from([s for s in sections if f"{s}.{key.leaf}" not in valid]))
    path = write(tmp_path_factory.mktemp("wrong"), f"{section}.{key.leaf} = 1\n")
    said = next(line for line in resolve_config(path).problems if f"{section}.{key.leaf} is not a key" in line)
    assert ":1: " in said
    assert "did you mean" in said
