"""Every constraint by the name that data sets give it. One line a constraint."""

from surefoot.envs.rewards.constraints import layout, wording
from surefoot.envs.rewards.constraints.kinds import Constraint, character, count, place, relation, text, texts


def _fits(*, num_paragraphs: int, nth_paragraph: int, first_word: str) -> bool:
    return nth_paragraph <= num_paragraphs


def _is_range(*, min_words: int, max_words: int) -> bool:
    return min_words <= max_words


def _is_inside(*, prompt_to_repeat: str, n_start: int, n_end: int) -> bool:
    return bool(prompt_to_repeat[n_start : n_end + 1].strip())


def _has_a_middle(*, phrase: str, small_n: int) -> bool:
    return len(phrase.split()) > 2


_COPY = {"prompt_to_repeat": text}
_SPAN = {"prompt_to_repeat": text, "n_start": count, "n_end": count}
_OFTEN = {"keyword": text, "frequency": count, "relation": relation}
_LETTERS = {"letter": character, "let_frequency": count, "let_relation": relation}
_FIVE = {f"keyword{number}": text for number in range(1, 6)}
_POSITION = {"keyword": text, "n": place, "m": place}

_IFEVAL = {
    "keywords:existence": Constraint(wording.has_keywords, {"keywords": texts}),
    "keywords:frequency": Constraint(wording.keyword_count, _OFTEN),
    "keywords:forbidden_words": Constraint(wording.has_no_keywords, {"forbidden_words": texts}),
    "keywords:letter_frequency": Constraint(wording.letter_count, _LETTERS),
    "language:response_language": Constraint(wording.in_language, {"language": wording.language}),
    "length_constraints:number_sentences": Constraint(
        wording.sentence_count, {"num_sentences": count, "relation": relation}
    ),
    "length_constraints:number_paragraphs": Constraint(layout.paragraph_count, {"num_paragraphs": count}),
    "length_constraints:number_words": Constraint(wording.word_count, {"num_words": count, "relation": relation}),
    "length_constraints:nth_paragraph_first_word": Constraint(
        layout.paragraph_begins, {"num_paragraphs": count, "nth_paragraph": place, "first_word": text}, _fits
    ),
    "detectable_content:number_placeholders": Constraint(layout.placeholder_count, {"num_placeholders": count}),
    "detectable_content:postscript": Constraint(layout.has_postscript, {"postscript_marker": text}),
    "detectable_format:number_bullet_lists": Constraint(layout.bullet_count, {"num_bullets": count}),
    "detectable_format:constrained_response": Constraint(layout.one_of_three_answers, {}),
    "detectable_format:number_highlighted_sections": Constraint(layout.highlight_count, {"num_highlights": count}),
    "detectable_format:multiple_sections": Constraint(
        layout.section_count, {"section_spliter": text, "num_sections": count}
    ),
    "detectable_format:json_format": Constraint(layout.is_json, {}),
    "detectable_format:title": Constraint(layout.has_title, {}),
    "combination:two_responses": Constraint(layout.two_responses, {}),
    "combination:repeat_prompt": Constraint(layout.repeats_first, _COPY),
    "startend:end_checker": Constraint(layout.ends_with, {"end_phrase": text}),
    "startend:quotation": Constraint(layout.in_quotes, {}),
    "change_case:capital_word_frequency": Constraint(
        wording.capital_words, {"capital_frequency": count, "capital_relation": relation}
    ),
    "change_case:english_capital": Constraint(wording.all_capital, {}),
    "change_case:english_lowercase": Constraint(wording.all_lower, {}),
    "punctuation:no_comma": Constraint(layout.no_comma, {}),
}
_IFBENCH_TRAINING = {
    "keywords:word_once": Constraint(wording.keyword_once, {"keyword": text}),
    "keywords:word_count_different_numbers": Constraint(wording.keyword_count, _OFTEN),
    "keywords:exclude_word_harder": Constraint(wording.has_no_keyword, {"keyword": text}, ignores=("instruction",)),
    "keywords:no_adjacent_consecutive": Constraint(wording.first_letters_do_not_follow, {}),
    "keywords:palindrome": Constraint(wording.has_palindrome, {}),
    "keywords:keyword_specific_position": Constraint(wording.keyword_at, _POSITION),
    "keywords:start_end": Constraint(wording.begins_as_it_ends, {}),
    "letters:letter_counting": Constraint(wording.letters_in_all, {"N": count, "relation": relation}),
    "letters:letter_counting2": Constraint(wording.letter_count, _LETTERS),
    "count:lowercase_counting": Constraint(wording.few_lower_words, {"N": count}),
    "count:count_unique": Constraint(wording.no_word_twice, {}),
    "count:count_increment_word": Constraint(wording.keyword_once_and_twice, {"keyword1": text, "keyword2": text}),
    "count:counting_composition": Constraint(layout.three_paragraphs_of, {"n_sent": count, "n_words": count}),
    "first_word:first_word_sent": Constraint(wording.sentences_begin, {"first_word": text}),
    "first_word:first_word_answer": Constraint(wording.begins, {"first_word": text}),
    "last_word:last_word_sent": Constraint(wording.sentences_end, {"last_word": text}),
    "last_word:last_word_answer": Constraint(wording.ends, {"last_word": text}),
    "paragraphs:paragraphs": Constraint(layout.two_divided_paragraphs, {}),
    "paragraphs:paragraphs2": Constraint(layout.two_paragraphs, {}),
    "detectable_format:square_brackets": Constraint(layout.words_in_square_brackets, {}),
    "detectable_format:bigram_wrapping": Constraint(layout.pairs_in_angle_brackets, {}),
    "detectable_format:sentence_hyphens": Constraint(layout.sentences_joined_by_hyphens, {}),
    "copy:repeat_phrase": Constraint(layout.repeats_phrase, {"phrase": text, "small_n": count}, _has_a_middle),
    "copy:copy": Constraint(layout.is_copy, _COPY),
    "copy:copying_simple": Constraint(layout.is_copy, _COPY),
    "copy:copying_multiple": Constraint(layout.is_copied_times, {"prompt_to_repeat": text, "N": count}),
    "new:copy_span_idx": Constraint(layout.is_span, _SPAN, _is_inside),
    "punctuation:punctuation_dot": Constraint(layout.no_dot, {}),
    "punctuation:punctuation_exclamation": Constraint(layout.no_exclamation, {}),
}
_IFBENCH = {
    "count:word_count_range": Constraint(
        wording.word_count_between, {"min_words": count, "max_words": count}, _is_range
    ),
    "count:unique_word_count": Constraint(wording.distinct_words, {"N": count}),
    "count:conjunctions": Constraint(wording.conjunctions, {"small_n": count}),
    "count:numbers": Constraint(wording.number_count, {"N": count}),
    "count:punctuation": Constraint(layout.all_punctuation, {}),
    "count:keywords_multiple": Constraint(wording.keywords_as_often, _FIVE),
    "words:alphabet": Constraint(wording.first_letters_run_through_alphabet, {}),
    "words:consonants": Constraint(wording.consonant_clusters, {}),
    "words:keywords_specific_position": Constraint(wording.keyword_at, _POSITION),
    "words:last_first": Constraint(wording.sentences_chained, {}),
    "words:no_consecutive": Constraint(wording.first_letters_change, {}),
    "words:palindrome": Constraint(wording.ten_palindromes, {}),
    "words:prime_lengths": Constraint(wording.prime_lengths, {}),
    "words:repeats": Constraint(wording.no_word_more_often, {"small_n": count}),
    "words:vowel": Constraint(wording.three_vowels, {}),
    "sentence:increment": Constraint(wording.each_sentence_longer, {"small_n": count}),
    "sentence:keyword": Constraint(wording.keyword_in_sentence, {"word": text, "N": place}),
    "format:newline": Constraint(layout.word_a_line, {}),
    "format:no_whitespace": Constraint(layout.no_whitespace, {}),
    "format:parentheses": Constraint(layout.nested_brackets, {}),
    "repeat:repeat_change": Constraint(layout.is_copy_but_first_word, _COPY),
    "repeat:repeat_span": Constraint(layout.is_span, _SPAN, _is_inside),
}
CONSTRAINTS = {**_IFEVAL, **_IFBENCH_TRAINING, **_IFBENCH}
