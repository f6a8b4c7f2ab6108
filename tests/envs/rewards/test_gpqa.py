from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.envs.rewards import gpqa
from surefoot.types.errors import RewardError

CITIES = {"choices": ["Rome", "Oslo", "Bern", "The Hague"]}


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("Answer: C", "C"),
        ("ANSWER: D", "D"),
        ("Answer - B", "B"),
        ("answer: c", "C"),
        ("The answer is (c).", "C"),
        ("(C)", "C"),
        ("**C**", "C"),
        ("C", "C"),
        ("C) Mitochondria", "C"),
        (r"\boxed{C}", "C"),
        (r"\boxed{\text{C}}", "C"),
        (r"$\boxed{\textbf{(C)}}$.", "C"),
        (r"The answer is $\boxed{A}$ lies between", "A"),
        (r"**Final answer:** \(\boxed{D}\)", "D"),
        ("the correct answer is **C**.", "C"),
        ("**Answer:** C", "C"),
        ("**Answer**: C", "C"),
        ("Answer: `B`", "B"),
        ('The answer is "C".', "C"),
        ("## Answer\n\nC", "C"),
        ("Final Answer:\n\n**(C)**", "C"),
        ("I considered A and B.\nC", "C"),
        ("so it must be (C).", "C"),
        ("The answer is option C because it works", "C"),
        ("The answer is A because it works", "A"),
        ("The answer is I", "I"),
        ("The correct option is: D) 42 m/s", "D"),
        ("The best answer is choice B.", "B"),
        ("The answer to the question is D.", "D"),
        ("the answer is most likely B", "B"),
        ("I choose D", "D"),
        ("I'll go with option B.", "B"),
        ("Option (C) is the correct answer", "C"),
        ("B is correct. A is not correct", "B"),
        ("My answer: B\n\nI hope this helps!", "B"),
        ("The answer is A. Wait, no. The answer is B.", "B"),
        ("The answer is C. Option D is wrong because A.", "C"),
        ("<think>Answer: A</think>Answer: B", "B"),
    ],
)
def test_letter(response: str, letter: str) -> None:
    assert gpqa.answer(response) == letter
    assert gpqa.score("", response, letter, {}) == 1
    others = [other for other in gpqa.DEFAULT_LETTERS if other != letter]
    assert not any(gpqa.score("", response, other, {}) for other in others)


@pytest.mark.parametrize(
    "response",
    [
        "",
        "The answer is a prime number",
        "Answer: A train is faster",
        "Answer: I think it is hard",
        "A dog. I saw it. A cat",
        "C is the best conductor",
        "The answer is not A",
        "The answer is A or B",
        "Answer: A, B",
        "Answer: (A) or (B)",
        "Answer: A and C",
        "The answer is A. No: the answer is A or B",
        "A) x\nB) y\nC) z\nD) w",
        "<think>Answer: A",
        "<think>Answer: A</think>",
        "Answer: C6H12O6",
        "f(A) is large",
        "Answer: Z",
    ],
)
def test_no_letter(response: str) -> None:
    assert not any(gpqa.score("", response, letter, {}) for letter in gpqa.DEFAULT_LETTERS)


@pytest.mark.parametrize(
    ("label", "metadata", "letter"),
    [
        ("B", {}, "B"),
        ("b", {}, "B"),
        (" (B) ", {}, "B"),
        (1, {}, "B"),
        (1.0, {}, "B"),
        (0, CITIES, "A"),
        ("Oslo", CITIES, "B"),
        ("oslo.", CITIES, "B"),
        ("B", CITIES, "B"),
        ("K", {"choices": dict.fromkeys("JKL", "x")}, "K"),
        (1, {"valid_letters": ["P", "Q"]}, "Q"),
        (None, {"correct_letter": "B"}, "B"),
        ("The capital of Norway", {"correct_letter": "b", **CITIES}, "B"),
        ("Oslo", {"correct_letter": "B", **CITIES}, "B"),
        ("3", {"choices": ["1", "2", "3"]}, "C"),
    ],
)
def test_label(label: object, metadata: dict[str, Any], letter: str) -> None:
    gpqa.check(label, metadata)
    assert gpqa.score("", f"Answer: {letter}", label, metadata) == 1
    assert gpqa.score("", "Answer: Z", label, metadata) == 0


@pytest.mark.parametrize(
    ("label", "metadata", "problem"),
    [
        (None, {}, "null"),
        (True, {}, "bool"),
        (["B"], {}, "list"),
        ("", {}, "empty"),
        ("007", {}, "no letter"),
        ("Oslo", {}, "no letter"),
        ("Z", CITIES, "0 of the choices"),
        ("E", CITIES, "0 of the choices"),
        (4, CITIES, "index"),
        (-1, CITIES, "index"),
        (1.5, CITIES, "index"),
        (float("nan"), CITIES, "finite"),
        ("Paris", CITIES, "0 of the choices"),
        ("x", {"choices": ["x", "X."]}, "2 of the choices"),
        ("A", {"correct_letter": "B"}, "correct_letter is B"),
        ("Rome", {"correct_letter": "B", **CITIES}, "correct_letter is B"),
        ("A", {"correct_letter": "Z"}, "correct_letter"),
        ("A", {"choices": "abc"}, "str"),
        ("A", {"choices": ["x", "y"], "valid_letters": ["A"]}, "2 choices and 1 letters"),
        ("A", {"choices": {"one": "x"}}, "one letter"),
    ],
)
def test_data_errors(label: object, metadata: dict[str, Any], problem: str) -> None:
    with pytest.raises(RewardError, match=problem):
        gpqa.check(label, metadata)
    with pytest.raises(RewardError, match=problem):
        gpqa.score("", "Answer: A", label, metadata)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("The answer is Oslo.", 1),
        ("Oslo", 1),
        (r"\boxed{\text{Oslo}}", 1),
        ("It was hard.\nOslo", 1),
        ("The answer is Rome. No, the answer is Oslo.", 1),
        ("The answer is Rome, Oslo, Bern or The Hague", 0),
        ("Rome Oslo Bern", 0),
        ("Oslo\nThe answer is Rome", 0),
        ("The answer is C. Oslo", 0),
    ],
)
def test_the_choices_text_instead_of_a_letter(response: str, expected: float) -> None:
    assert gpqa.score("", response, "B", CITIES) == expected


@given(st.text(max_size=60), st.sampled_from("ABCD"))
def test_last_statement_wins_whatever_stands_before(before: str, letter: str) -> None:
    assert gpqa.answer(f"{before}</think>Answer: D\nAnswer: {letter}") == letter
