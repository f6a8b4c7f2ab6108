r"""589 pairs of label and response, judged by hand without sight of the code, and the bars they hold.

Plain math-verify is `verify(parse(gold), parse(response))`; its verdicts take 20 s and are kept beside the pairs.
Change the pairs, and `python tests/envs/rewards/test_math_pairs.py` writes the verdicts and the table anew.
"""

import hashlib
import json
import logging
import re
import time
from collections import Counter
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from surefoot.envs.rewards import math

PAIRS = Path(__file__).with_name("math_pairs.jsonl")
BASELINE = Path(__file__).with_name("math_pairs_baseline.json")
DOC = Path(__file__).parents[3] / "docs" / "math.md"
SECONDS = 2.0  # of this process; the built-in's limit is 5 s of the clock
SHARE = 0.02


@cache
def pairs() -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(line) for line in PAIRS.read_text(encoding="utf8").splitlines())


@cache
def verdicts() -> tuple[bool, ...]:
    """Ours, in the order of the pairs; each within its time."""
    math.prepare()
    found = []
    for pair in pairs():
        start = time.process_time()
        found.append(math.score("", pair["response"], pair["gold"], {}) == 1.0)
        assert time.process_time() - start < SECONDS, pair
    return tuple(found)


def baseline() -> list[bool]:
    return [mark == "1" for mark in json.loads(BASELINE.read_text())["verdicts"]]


def wrong(found: tuple[bool, ...] | list[bool]) -> Counter[str]:
    rows = zip(pairs(), found, strict=True)
    return Counter(pair["kind"] for pair, verdict in rows if verdict != pair["right"])


def table() -> str:
    kinds = Counter(pair["kind"] for pair in pairs())
    ours, theirs = wrong(verdicts()), wrong(baseline())
    rows = [f"| {kind} | {n} | {ours[kind]} | {theirs[kind]} |" for kind, n in kinds.items()]
    total = f"| all | {kinds.total()} | {ours.total()} | {theirs.total()} |"
    return "\n".join(
        ["| kind | pairs | wrong here | wrong in math-verify |", "| --- | --- | --- | --- |", *rows, total]
    )


def digest() -> str:
    return hashlib.sha256(PAIRS.read_bytes()).hexdigest()


def plain_math_verify() -> str:
    """Its verdicts as a line of 0 and 1; an error is a refusal."""
    from math_verify import parse, verify

    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    return "".join(str(int(bool(verify(parse(pair["gold"]), parse(pair["response"]))))) for pair in pairs())


def test_the_pairs_are_many_and_of_many_kinds() -> None:
    kinds = Counter(pair["kind"] for pair in pairs())
    close = sum(pair["close"] for pair in pairs())
    assert kinds.total() >= 350
    assert len(kinds) >= 24
    assert close >= 100


def test_at_most_two_in_a_hundred_are_wrong() -> None:
    assert wrong(verdicts()).total() <= SHARE * len(pairs())


def test_no_wrong_answer_is_accepted() -> None:
    rows = zip(pairs(), verdicts(), strict=True)
    assert not [pair for pair, verdict in rows if verdict and not pair["right"]]


def test_no_kind_is_worse_than_plain_math_verify() -> None:
    ours, theirs = wrong(verdicts()), wrong(baseline())
    assert not {kind: n for kind, n in ours.items() if n > theirs[kind]}


def test_the_table_in_the_docs_is_todays() -> None:
    assert table() in DOC.read_text(encoding="utf8")


def test_the_baseline_is_of_these_pairs() -> None:
    assert json.loads(BASELINE.read_text())["pairs_sha256"] == digest()


@pytest.mark.slow
def test_the_baseline_is_what_math_verify_says() -> None:
    kept = json.loads(BASELINE.read_text())
    if version("math-verify") != kept["math_verify"]:
        pytest.skip(f"the verdicts are of math-verify {kept['math_verify']}")
    assert plain_math_verify() == kept["verdicts"]


def write() -> None:
    kept = {"math_verify": version("math-verify"), "pairs_sha256": digest(), "verdicts": plain_math_verify()}
    BASELINE.write_text(json.dumps(kept, indent=1) + "\n")
    text = DOC.read_text(encoding="utf8")
    DOC.write_text(re.sub(r"\| kind \|.*\n(?:\|.*\n?)*", lambda match: table() + "\n", text), encoding="utf8")


if __name__ == "__main__":
    write()
