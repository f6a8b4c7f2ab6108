import json
from typing import Any

import pytest

from surefoot.envs.rewards import ifbench
from surefoot.envs.rewards.constraints.table import CONSTRAINTS
from surefoot.types.errors import HookError, RewardError

CASES: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {  # arguments, responses that follow, that do not
    "keywords:existence": ({"keywords": ["war", "peace"]}, ["War and Peace."], ["Toward peace", "war"]),
    "keywords:frequency": (
        {"keyword": "war", "frequency": 2, "relation": "at least"},
        ["War, war, war.", "war-war"],
        ["war toward", "warwar"],
    ),
    "keywords:forbidden_words": ({"forbidden_words": ["rock", "c++"]}, ["Rocks and C."], ["A ROCK.", "In C++!"]),
    "keywords:letter_frequency": (
        {"letter": "#", "let_frequency": 2.0, "let_relation": "at least"},
        ["#a #b"],
        ["#a"],
    ),
    "language:response_language": (
        {"language": "ko"},
        ["안녕하세요, 여러분 반갑습니다 X!"],
        ["Hello", "こんにちは", "안녕 hello there"],
    ),
    "length_constraints:number_sentences": (
        {"num_sentences": 2, "relation": "at most"},
        ["Dr. No has 3.5 kg. Really?!", "One", "He said: “No.” Then he left...", "猫。犬。"],
        ["A cat. A dog. A cow.", "Title\n\nA cat. A dog.", "I said no. Yes. No."],
    ),
    "length_constraints:number_paragraphs": (
        {"num_paragraphs": 2},
        ["a\n***\nb", "***\na\n***\nb\n***"],
        ["a\n\nb", "a\n***\n***\nb", "a***b***c"],
    ),
    "length_constraints:number_words": ({"num_words": 3, "relation": "less than"}, ["two words"], ["one two three"]),
    "length_constraints:nth_paragraph_first_word": (
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Hello"},
        ["a\n\nhello, b", "a\n \n\n\n“Hello” b"],
        ["hello\n\na", "a\n\nhello\n\nb", "a\nhello"],
    ),
    "detectable_content:number_placeholders": ({"num_placeholders": 2}, ["[name] [the date]"], ["[name]", "[] [ ]"]),
    "detectable_content:postscript": (
        {"postscript_marker": "P.S."},
        ["Dear\nP.S. bye", "Dear\n**p. s.** bye"],
        ["Dear\nP.S.", "Dear PS bye", "Dear P.S. bye"],
    ),
    "detectable_format:number_bullet_lists": (
        {"num_bullets": 2},
        ["* a\n* b", "x\n- a\n  + b\n---\n*bold* c"],
        ["* a", "* a\n* b\n* c", "*a\n*b"],
    ),
    "detectable_format:constrained_response": (
        {},
        ["My answer is yes.", "Well. My answer is no."],
        ["yes", "My answer is yes. My answer is no."],
    ),
    "detectable_format:number_highlighted_sections": (
        {"num_highlights": 2},
        ["*a b* and **c**"],
        ["**a b**", "* a\n* b\n* c", "*** a ***"],
    ),
    "detectable_format:multiple_sections": (
        {"section_spliter": "Section", "num_sections": 2},
        ["Section 1\na\nSection 2\nb"],
        ["Section 1\na", "Section X\nSection Y"],
    ),
    "detectable_format:json_format": (
        {},
        ['{"a": [1]}', '```json\n{"a": 1}\n```', "[1]"],
        ["5", '"a"', '{"a": NaN}', "Here: {}", '{"a": 1', "[" * 100_000],
    ),
    "detectable_format:title": ({}, ["<<poem>>\nx", "a <<b>> c"], ["<<>>", "<< >>", "<a>", ">>a<<", "<<a\nb>>"]),
    "combination:two_responses": ({}, ["a\n******\nb"], ["a******a", "a", "a******b******c", "a************b"]),
    "combination:repeat_prompt": ({"prompt_to_repeat": "Say A."}, [" say a. A"], ["A. Say A."]),
    "startend:end_checker": ({"end_phrase": "Bye now."}, ["x. bye now.", '"x. Bye now."'], ["Bye now. x", "Bye now"]),
    "startend:quotation": ({}, ['"a"', " “a b” "], ['"', 'a "b"', '"a" b', "'a'"]),
    "change_case:capital_word_frequency": (
        {"capital_frequency": 2, "capital_relation": "exactly"},
        ["THE WELL-KNOWN cat"],
        ["THE cat", "A BIG CAT"],
    ),
    "change_case:english_capital": ({}, ["HI 5!"], ["Hi", "5"]),
    "change_case:english_lowercase": ({}, ["hi 5!"], ["Hi", "5"]),
    "punctuation:no_comma": ({}, ["a; b"], ["a, b", "猫，犬"]),
    "keywords:word_once": ({"keyword": "cat"}, ["A cat, cats"], ["cat cat", "cats"]),
    "keywords:word_count_different_numbers": (
        {"keyword": "cat", "frequency": 1, "relation": "more than"},
        ["cat cat"],
        ["cat cats"],
    ),
    "keywords:exclude_word_harder": ({"keyword": "cat", "instruction": "Be brief."}, ["Cats sit."], ["A cat", "Cat!"]),
    "keywords:no_adjacent_consecutive": ({}, ["a cat ate"], ["a big cat"]),
    "keywords:palindrome": ({}, ["my level!"], ["a cat", "I"]),
    "keywords:keyword_specific_position": (
        {"keyword": "cat", "n": 2, "m": 3},
        ["One. It's a cat. Two."],
        ["It's a cat. One.", "One. A cat sat.", "One."],
    ),
    "keywords:start_end": ({}, ["Cat is a cat"], ["Cat is a cat.", "cat", "cat dog"]),
    "letters:letter_counting": ({"N": 3, "relation": "at most"}, ["a1 b2 c3"], ["abcd"]),
    "letters:letter_counting2": (
        {"letter": "A", "let_frequency": 1, "let_relation": "exactly"},
        ["Abc"],
        ["Aa", "b"],
    ),
    "count:lowercase_counting": ({"N": 1}, ["a CAT Sat"], ["a cat"]),
    "count:count_unique": ({}, ["a cat sat"], ["A cat, a dog"]),
    "count:count_increment_word": ({"keyword1": "a", "keyword2": "b"}, ["b a b"], ["a b", "a a b b"]),
    "count:counting_composition": (
        {"n_sent": 2, "n_words": 2},
        ["It is. It was.\n***\nIt is. It was.\n***\nIt is. It was."],
        ["It is. It was.", "It is. It was.***It is. It was.***It is. It was not."],
    ),
    "first_word:first_word_sent": ({"first_word": "Cats"}, ["Cats sit. Cats eat."], ["Cats sit. Dogs eat."]),
    "first_word:first_word_answer": ({"first_word": "Cats"}, ["cats, sit."], ["My cats", "Catsup"]),
    "last_word:last_word_sent": ({"last_word": "cats"}, ["I like cats. No Cats!"], ["I like cats. Why?"]),
    "last_word:last_word_answer": ({"last_word": "cats"}, ["Why? Cats."], ["cats why"]),
    "paragraphs:paragraphs": ({}, ["a\n***\nb"], ["a", "a\n\nb"]),
    "paragraphs:paragraphs2": ({}, ["a\n\nb", "a\n \nb\n"], ["a\nb", "a\n\nb\n\nc"]),
    "detectable_format:square_brackets": ({}, ["[a] [cat]."], ["[a cat]", "[a] cat"]),
    "detectable_format:bigram_wrapping": ({}, ["<<a cat>> <<sat down>>.", "<<a b>> c"], ["a cat", "<<a cat sat>>"]),
    "detectable_format:sentence_hyphens": ({}, ["One is.-Two are."], ["One is. - Two are.", "One is. Two are."]),
    "copy:repeat_phrase": (
        {"phrase": "The old cat sat", "small_n": 2},
        ["The old dog sat. The big cat sat."],
        ["The old dog sat.", "The old cat sat. The old dog sat. The big cat sat.", "The big dog sat. The old dog sat."],
    ),
    "copy:copy": ({"prompt_to_repeat": "Say A."}, ["say a. "], ["Say A. A"]),
    "copy:copying_simple": ({"prompt_to_repeat": "Say A."}, ["Say A."], ["A"]),
    "copy:copying_multiple": ({"prompt_to_repeat": "A b", "N": 2}, ["A b\n******\na b"], ["A b", "A b******c"]),
    "new:copy_span_idx": (
        {"prompt_to_repeat": "abcdef", "n_start": 1, "n_end": 3},
        ["bc", "BCD"],
        ["abc", "cd"],
    ),
    "punctuation:punctuation_dot": ({}, ["a!"], ["a.", "3.5"]),
    "punctuation:punctuation_exclamation": ({}, ["a."], ["a!"]),
    "count:word_count_range": ({"min_words": 2, "max_words": 3}, ["a b", "a b c"], ["a", "a b c d"]),
    "count:unique_word_count": ({"N": 3.0}, ["a b c c"], ["a A a! b"]),
    "count:conjunctions": ({"small_n": 2}, ["This and that, but no."], ["and And", "android butter"]),
    "count:numbers": ({"N": 2}, ["1,234 and 3.5"], ["1", "1 2 3"]),
    "count:punctuation": ({}, ["a. b, c! d? e; f: g?!"], ["a. b, c! d? e; f:", "a. b, d? e; f: g?!"]),
    "count:keywords_multiple": (
        {f"keyword{i + 1}": word for i, word in enumerate("abcde")},
        ["a b b c c c d d d d d e e e e e e e"],
        ["a b b c c c d d d d d e e e e e e", "a a b b"],
    ),
    "words:alphabet": ({}, ["Young zebras ate bread."], ["a b d", "1 2"]),
    "words:consonants": ({}, ["strong cats"], ["a strong cat"]),
    "words:keywords_specific_position": ({"keyword": "cat", "n": 1, "m": 1}, ["Cat!"], ["A cat"]),
    "words:last_first": ({}, ["I see cats. Cats eat."], ["I see cats. Dogs eat."]),
    "words:no_consecutive": ({}, ["a cat ate"], ["big bad"]),
    "words:palindrome": ({}, ["level " * 10], ["level " * 9, "noon " * 10]),
    "words:prime_lengths": ({}, ["an owl, tiger"], ["a cat", "four"]),
    "words:repeats": ({"small_n": 2}, ["a A b"], ["a a A"]),
    "words:vowel": ({}, ["a bed is"], ["a bed is on", "a\nb"]),
    "sentence:increment": ({"small_n": 1}, ["I. You are. We all are."], ["It is. It was.", "A b c. D."]),
    "sentence:keyword": ({"word": "cat", "N": 2}, ["One. The cat."], ["The cat. One.", "A cat."]),
    "format:newline": ({}, ["a\ncat\n\nsat"], ["a cat"]),
    "format:no_whitespace": ({}, ["a-b"], ["a b", "a\u00a0b"]),
    "format:parentheses": ({}, ["a ([{(b (c))}])"], ["((((a))))", "((((((", "(((([a)))))"]),
    "repeat:repeat_change": ({"prompt_to_repeat": "Say it now"}, ["Do it now"], ["Say it now", "Do it then"]),
    "repeat:repeat_span": ({"prompt_to_repeat": "abcdef", "n_start": 1, "n_end": 3}, ["bcd"], ["a"]),
}


def row(*names: str) -> dict[str, Any]:
    return {"instruction_id_list": list(names), "kwargs": [CASES[name][0] for name in names]}


def test_every_constraint_has_a_case() -> None:
    assert set(CASES) == set(CONSTRAINTS)
    assert len(CASES) == 76


@pytest.mark.parametrize("name", CASES)
def test_constraint(name: str) -> None:
    _, right, wrong = CASES[name]
    ifbench.check(None, row(name))
    assert [ifbench.score("", response, None, row(name)) for response in right] == [1.0] * len(right)
    assert [ifbench.score("", response, None, row(name)) for response in wrong] == [0.0] * len(wrong)


@pytest.mark.parametrize("name", CASES)
def test_an_empty_response_follows_nothing(name: str) -> None:
    for response in ("", " \n", "<think>a b", "<think>a</think>"):
        assert ifbench.score("", response, None, row(name)) == 0


def test_all_or_share() -> None:
    data = row("punctuation:no_comma", "startend:quotation")
    for response, share in (('"a"', 1.0), ("a", 0.5), ("a, b", 0.0), ('"a, b"', 0.5)):
        assert ifbench.score("", response, None, data, grade="share") == share
        assert ifbench.score("", response, None, data) == float(share == 1)
    assert ifbench.verdicts("a", data) == [("punctuation:no_comma", True), ("startend:quotation", False)]
    with pytest.raises(HookError, match="'share'"):
        ifbench.check(None, data, grade="shares")


def test_only_what_follows_the_thinking_is_read() -> None:
    data = row("punctuation:no_comma")
    assert ifbench.score("", "<think>a, b</think>c", None, data) == 1
    assert ifbench.score("", "<think>a</think>b, c", None, data) == 0


def test_nulls_are_as_if_they_were_not_there() -> None:
    names = ["punctuation:no_comma", "keywords:word_once"]
    columns = {"keyword": None, "N": None}
    for arguments in ([columns, {**columns, "keyword": "cat"}], [None, {"keyword": "cat"}]):
        ifbench.check(None, {"instruction_id_list": names, "kwargs": arguments})
    ifbench.check(None, {"instruction_id_list": names[:1]})
    ifbench.check(None, {"instruction_id_list": names[:1], "kwargs": None})


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ({}, "instruction_id_list"),
        ({"instruction_id_list": []}, "instruction_id_list"),
        ({"instruction_id_list": "punctuation:no_comma"}, "instruction_id_list"),
        (
            {"instruction_id_list": ["punctuation:no_coma"]},
            "'punctuation:no_coma'; did you mean 'punctuation:no_comma'",
        ),
        ({"instruction_id_list": [None]}, "None"),
        ({"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}, {}]}, "1 instructions"),
        ({"instruction_id_list": ["punctuation:no_comma"], "kwargs": ["x"]}, "no object"),
    ],
)
def test_data_errors(metadata: dict[str, Any], problem: str) -> None:
    with pytest.raises(RewardError, match=problem):
        ifbench.check(None, metadata)
    with pytest.raises(RewardError, match=problem):
        ifbench.score("", "a", None, metadata)


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("keywords:word_once", {}, "'keyword' is missing"),
        ("keywords:word_once", {"keywords": "cat"}, "did you mean 'keyword'"),
        ("keywords:word_once", {"keyword": ""}, "not text, or empty"),
        ("keywords:word_once", {"keyword": 7}, "not text"),
        ("keywords:existence", {"keywords": []}, "not a list"),
        ("keywords:existence", {"keywords": "cat"}, "not a list"),
        ("count:unique_word_count", {"N": 2.5}, "no count"),
        ("count:unique_word_count", {"N": -1}, "no count"),
        ("count:unique_word_count", {"N": True}, "no count"),
        ("count:unique_word_count", {"N": "7"}, "no count"),
        ("sentence:keyword", {"word": "a", "N": 0}, "counted from 1"),
        ("length_constraints:number_words", {"num_words": 3, "relation": "around"}, "none of less than"),
        ("length_constraints:number_words", {"num_words": 0, "relation": "less than"}, "no response"),
        ("count:word_count_range", {"min_words": 3, "max_words": 2}, "no response"),
        ("copy:repeat_phrase", {"phrase": "a b", "small_n": 2}, "no response"),
        ("repeat:repeat_span", {"prompt_to_repeat": "abc", "n_start": 3, "n_end": 9}, "no response"),
        (
            "length_constraints:nth_paragraph_first_word",
            {"num_paragraphs": 1, "nth_paragraph": 2, "first_word": "a"},
            "no response",
        ),
        (
            "keywords:letter_frequency",
            {"letter": "ab", "let_frequency": 1, "let_relation": "at least"},
            "one character",
        ),
        ("language:response_language", {"language": "de"}, "script"),
    ],
)
def test_arguments_that_cannot_be(name: str, arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(RewardError, match=f"{name}.*{problem}"):
        ifbench.check(None, {"instruction_id_list": [name], "kwargs": [arguments]})


def test_a_row_as_json_has_it() -> None:
    line = '{"instruction_id_list": ["count:numbers", "punctuation:no_comma"], "kwargs": [{"N": 2.0}, {"N": null}]}'
    assert ifbench.score("", "1 and 2", None, json.loads(line)) == 1
