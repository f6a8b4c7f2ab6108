r"""Nothing an answer can hold makes grading slow, and nothing makes it raise."""

import string
import subprocess
import sys
import threading
import time
from contextlib import nullcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.envs.rewards.math import score
from surefoot.types.errors import RewardError

SECONDS = 2.0  # of this process: what other processes do must not fail a test; docs/math.md has the usual times
BOMBS = [
    "1500!",
    "(1500!)!",
    "100000000!",
    "9^{9^{9^{9}}}",
    "9^9^9^9",
    r"\sqrt{2}^{9^{9^9}}",
    r"e^{e^{e^{e^{100}}}}",
    r"\sin(10^{10^{10}})",
    r"\sinh(10^{100})",
    "1e999999999",
    "10^{-999999999}",
    "0.5^{999999999}",
    "x^{999999999}",
    r"\binom{10^9}{10^8}",
    r"\binom{\sqrt2}{10^9}",
    r"\log(\log(\log(10)))",
    "(" * 5000,
    "(" * 490 + "1" + ")" * 490,
    "{" * 490 + "1" + "}" * 490,
    r"\frac{1}{" * 90 + "2" + "}" * 90,
    r"\sqrt{" * 90 + "2" + "}" * 90,
    "-" * 900 + "1",
    "2^" * 400 + "2",
    "(" + "+".join(["x"] * 300) + ")^{50}",
    "+".join([r"\sqrt{2}"] * 110),
    ",".join(["1"] * 490),
    ",".join([r"\sqrt2"] * 150),
    r"\{" + ",".join([r"\sin1"] * 150) + r"\}",
    "1,234" * 180,
    "1 " * 450,
    "x " * 450,
    "2*" * 450 + "2",
    "5" + "%" * 900,
    "x^{" * 200 + "2" + "}" * 200,
    r"\sin " * 150 + "x",
    r"\sqrt " * 150 + "2",
    r"\pm" * 300 + "1",
    r"\pm 1," * 100,
    "=" * 900,
    r"x<" * 300 + "1",
    "a" * 100_000,
    "1" * 100_000,
    "1" * 999,
    r"\text{" * 150,
    r"\text{a}" * 140,
    r"\int_0^{9^{9^9}} x^{999} dx",
    r"\int_0^1 x^{x^{x^x}} dx",
    r"\sum_{k=1}^{10^{9}} \frac{1}{k^2}",
    r"\begin{pmatrix}" + "1&" * 200 + r"1\end{pmatrix}",
    "%" * 900,
    "!" * 900,
    "|" * 900,
    "5 " + "a" * 900,
    "٣",
    "\x00\x1e\x1f",
    "\ud800",
]
GOLDS = ["8", r"\sqrt{2}", "x^2+1", r"\{1,2\}", r"\int_0^1 x\,dx", "B", "1,2,3", "x > 2"]


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: f"{bomb[:20]!r}")
def test_is_wrong_in_time(bomb: str) -> None:
    for gold in GOLDS:
        start = time.process_time()
        assert score("", rf"\boxed{{{bomb}}}", gold, {}) == 0.0
        assert time.process_time() - start < SECONDS, gold


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_as_label_is_in_time_too(bomb: str) -> None:
    start = time.process_time()
    with nullcontext() if 0 < len(bomb) <= 1000 else pytest.raises(RewardError):
        score("", rf"\boxed{{{bomb}+1}}", bomb, {})
    assert time.process_time() - start < SECONDS


@pytest.mark.parametrize(
    "response",
    [r"\boxed{" * 20_000, "{" * 150_000, r"\boxed{8}" * 20_000, r"\\" * 70_000, "answer is " * 15_000, "1," * 70_000],
    ids=lambda response: f"{response[:10]!r}",
)
@pytest.mark.parametrize("fallback", ["none", "final_answer", "last_number"])
def test_long_responses_are_searched_in_time(response: str, fallback: str) -> None:
    start = time.process_time()
    score("", response, "42", {}, fallback=fallback)
    assert time.process_time() - start < SECONDS


def test_off_the_main_thread() -> None:
    rewards: list[float] = []
    thread = threading.Thread(
        target=lambda: rewards.append(score("", r"\boxed{\int_{0}^{1} x\,dx}", r"\int_0^1 x dx", {}))
    )
    thread.start()
    thread.join(60)
    assert rewards == [1.0]


def test_import_is_light() -> None:
    heavy = {"sympy", "mpmath", "math_verify", "torch"}
    code = f"import sys, surefoot.envs.rewards.math; print(*({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == ""


COMMANDS = (
    r"\frac \sqrt \pi \text \pm \cup \in \le \left( \begin{pmatrix} \\ \{ \} \overline \sin \log_ \binom \approx \infty"
)
ALPHABET = st.sampled_from(
    [*string.digits, *"xyeiABn+-*/^_!()[]{}|%.,:;=<>$&~ ", *COMMANDS.split(), "or", "and", "m", "cm"]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(ALPHABET, max_size=14).map("".join), st.lists(ALPHABET, min_size=1, max_size=14).map("".join))
def test_any_text_gets_a_reward(answer: str, gold: str) -> None:
    start = time.process_time()
    if gold.strip(" .,:;$~{}\\"):
        assert score("", rf"\boxed{{{answer}}}", f"1+{gold}", {}) in (0.0, 1.0)
    assert time.process_time() - start < SECONDS
