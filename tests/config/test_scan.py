"""The line finder: its tree is tomllib's on valid texts, and each place has the line it stands on."""

import tomllib
from typing import Any

import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.config.scan import scan_text

TEXT = """\
# a comment with [brackets] and "quotes
top = 'a # b'
"quoted key" = 1

[model]  # comment
path = "x"
nested.a.b = 2
long = \"\"\"
[not.a.table]
x = 1
\"\"\"
after = '''it's'''
[data.params]
min = 1
[[env.rewards]]
name = "a"
[env.rewards.params]
strip = true
[[env.rewards]]
name = "b"
[eval]
sets = [
  { name = "p", path = "[{" },  # one

  { name = "q" },
]
"""
LINES = {
    ("top",): 2,
    ("quoted key",): 3,
    ("model",): 5,
    ("model", "path"): 6,
    ("model", "nested", "a", "b"): 7,
    ("model", "long"): 8,
    ("model", "after"): 12,
    ("data", "params"): 13,
    ("data", "params", "min"): 14,
    ("env", "rewards", 0, "name"): 16,
    ("env", "rewards", 0, "params"): 17,
    ("env", "rewards", 0, "params", "strip"): 18,
    ("env", "rewards", 1): 19,
    ("env", "rewards", 1, "name"): 20,
    ("eval", "sets"): 22,
    ("eval", "sets", 0, "path"): 23,
    ("eval", "sets", 1): 25,
    ("eval", "sets", 1, "name"): 25,
}


def test_lines() -> None:
    found = scan_text(TEXT)
    assert {place: found.lines.get(place) for place in LINES} == LINES
    assert found.tree == tomllib.loads(TEXT)
    assert not found.problems


def test_carriage_returns_do_not_shift_lines() -> None:
    assert scan_text(TEXT.replace("\n", "\r\n")).lines == scan_text(TEXT).lines


NAMES = st.text(st.sampled_from("ab-_. '\"#[]="), min_size=1, max_size=5)
SCALARS = st.one_of(
    st.text(max_size=12), st.integers(-9, 9), st.booleans(), st.floats(allow_nan=False), st.just("[{#'\n")
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=12,
)


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(NAMES, TREES, max_size=4))
def test_the_tree_of_a_valid_text_is_tomllibs(tree: dict[str, Any]) -> None:
    text = tomli_w.dumps(tree)
    found = scan_text(text)
    assert found.problems == []
    assert found.tree == tomllib.loads(text)
    lines = text.replace("\r\n", "\n").split("\n")
    for place, line in found.lines.items():
        name = str(place[-1])
        if all(isinstance(part, str) for part in place):
            assert name in lines[line - 1] or tomli_w.dumps({name: 0}).rpartition(" = ")[0] in lines[line - 1]


@settings(deadline=None, max_examples=60)
@given(st.text(st.sampled_from("ab=[]{}\"'#\n, .1"), max_size=40))
def test_any_text_is_survived(text: str) -> None:
    """What tomllib takes is taken whole; what it refuses never raises here."""
    found = scan_text(text)
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    assert found.tree == tree
    assert not found.problems
