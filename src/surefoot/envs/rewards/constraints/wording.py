"""Constraints on words, letters and sentences."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from surefoot.envs.rewards.constraints.kinds import Relation
from surefoot.envs.rewards.constraints.reading import bare, occurrences, plain_words, sentences, words

SCRIPTS = {  # languages that their script tells, and how Unicode's names of it begin
    "bn": ("BENGALI",), "el": ("GREEK",), "gu": ("GUJARATI",), "he": ("HEBREW",), "ja": ("HIRAGANA", "KATAKANA", "CJK"),
    "kn": ("KANNADA",), "ko": ("HANGUL",), "ml": ("MALAYALAM",), "pa": ("GURMUKHI",), "ta": ("TAMIL",),
    "te": ("TELUGU",), "th": ("THAI",), "hy": ("ARMENIAN",), "ka": ("GEORGIAN",),
}  # fmt: skip
IN_SCRIPT = 0.9  # of a text's letters: names and terms may be foreign
_CONJUNCTIONS = frozenset(("for", "and", "nor", "but", "or", "yet", "so"))
_CAPITAL_CANDIDATE = re.compile(r"\w+(?:['’-]\w+)*")
_NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*")
_CLUSTER = re.compile(r"[bcdfghjklmnpqrstvwxyz]{2}")
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def has_keywords(response: str, keywords: Sequence[str]) -> bool:
    return all(occurrences(keyword, response) for keyword in keywords)


def has_no_keywords(response: str, forbidden_words: Sequence[str]) -> bool:
    return not any(occurrences(keyword, response) for keyword in forbidden_words)


def has_no_keyword(response: str, keyword: str) -> bool:
    return has_no_keywords(response, [keyword])


def keyword_count(response: str, keyword: str, frequency: int, relation: Relation) -> bool:
    return relation(occurrences(keyword, response), frequency)


def keyword_once(response: str, keyword: str) -> bool:
    return occurrences(keyword, response) == 1


def keyword_once_and_twice(response: str, keyword1: str, keyword2: str) -> bool:
    return occurrences(keyword1, response) == 1 and occurrences(keyword2, response) == 2


def keywords_as_often(response: str, keyword1: str, keyword2: str, keyword3: str, keyword4: str, keyword5: str) -> bool:
    """1, 2, 3, 5 and 7 times."""
    keywords = (keyword1, keyword2, keyword3, keyword4, keyword5)
    return [occurrences(keyword, response) for keyword in keywords] == [1, 2, 3, 5, 7]


def keyword_at(response: str, keyword: str, n: int, m: int) -> bool:
    """Word m of sentence n, both counted from 1."""
    found = sentences(response)[n - 1 : n]
    return bool(found) and plain_words(found[0])[m - 1 : m] == [bare(keyword)]


def keyword_in_sentence(response: str, word: str, N: int) -> bool:
    found = sentences(response)[N - 1 : N]
    return bool(found) and occurrences(word, found[0]) > 0


def letter_count(response: str, letter: str, let_frequency: int, let_relation: Relation) -> bool:
    return let_relation(response.casefold().count(letter), let_frequency)


def letters_in_all(response: str, N: int, relation: Relation) -> bool:
    return relation(sum(character.isalpha() for character in response), N)


def word_count(response: str, num_words: int, relation: Relation) -> bool:
    return relation(len(words(response)), num_words)


def word_count_between(response: str, min_words: int, max_words: int) -> bool:
    return min_words <= len(words(response)) <= max_words


def distinct_words(response: str, N: int) -> bool:
    return len(set(plain_words(response))) >= N


def no_word_twice(response: str) -> bool:
    return no_word_more_often(response, 1)


def no_word_more_often(response: str, small_n: int) -> bool:
    counts = Counter(plain_words(response))
    return bool(counts) and max(counts.values()) <= small_n


def sentence_count(response: str, num_sentences: int, relation: Relation) -> bool:
    return relation(len(sentences(response)), num_sentences)


def each_sentence_longer(response: str, small_n: int) -> bool:
    lengths = [len(plain_words(sentence)) for sentence in sentences(response)]
    steps = [after - before for before, after in pairwise(lengths)]
    return bool(lengths) and all(step == small_n for step in steps)


def sentences_chained(response: str) -> bool:
    """Each sentence begins with the last word of the one before."""
    parts = [plain_words(sentence) for sentence in sentences(response)]
    pairs = pairwise(parts)
    return bool(parts) and all(before[-1:] == after[:1] for before, after in pairs)


def sentences_begin(response: str, first_word: str) -> bool:
    parts = [plain_words(sentence) for sentence in sentences(response)]
    return bool(parts) and all(part[:1] == [bare(first_word)] for part in parts)


def sentences_end(response: str, last_word: str) -> bool:
    parts = [plain_words(sentence) for sentence in sentences(response)]
    return bool(parts) and all(part[-1:] == [bare(last_word)] for part in parts)


def begins(response: str, first_word: str) -> bool:
    return plain_words(response)[:1] == [bare(first_word)]


def ends(response: str, last_word: str) -> bool:
    return plain_words(response)[-1:] == [bare(last_word)]


def begins_as_it_ends(response: str) -> bool:
    """The same word, and nothing behind it, not even punctuation."""
    found = plain_words(response)
    return len(found) > 1 and found[0] == found[-1] and response.rstrip()[-1].isalnum()


def capital_words(response: str, capital_frequency: int, capital_relation: Relation) -> bool:
    """A hyphenated word is one."""
    return capital_relation(sum(word.isupper() for word in _CAPITAL_CANDIDATE.findall(response)), capital_frequency)


def all_capital(response: str) -> bool:
    return response.isupper()


def all_lower(response: str) -> bool:
    return response.islower()


def few_lower_words(response: str, N: int) -> bool:
    return sum(word.islower() for word in words(response)) <= N


def in_language(response: str, language: str) -> bool:
    """At least nine of ten letters are of the language's script; Japanese has kana among them."""
    names = [unicodedata.name(character, "") for character in response if character.isalpha()]
    inside = sum(name.startswith(SCRIPTS[language]) for name in names)
    has_kana = language != "ja" or any(name.startswith(("HIRAGANA", "KATAKANA")) for name in names)
    return bool(names) and inside >= IN_SCRIPT * len(names) and has_kana


def language(value: object) -> str:
    if not isinstance(value, str) or value not in SCRIPTS:
        raise ValueError(f"a language that its script does not tell; known are {', '.join(sorted(SCRIPTS))}")
    return value


def conjunctions(response: str, small_n: int) -> bool:
    return len(_CONJUNCTIONS & set(plain_words(response))) >= small_n


def number_count(response: str, N: int) -> bool:
    """1,234 and 3.5 are one number each."""
    return len(_NUMBER.findall(response)) == N


def first_letters_change(response: str) -> bool:
    """No two neighbouring words begin alike."""
    found = plain_words(response)
    return bool(found) and all(a[0] != b[0] for a, b in pairwise(found))


def first_letters_do_not_follow(response: str) -> bool:
    """No word begins with the letter behind its neighbour's in the alphabet."""
    found = plain_words(response)
    return bool(found) and all(ord(b[0]) - ord(a[0]) != 1 for a, b in pairwise(found))


def first_letters_run_through_alphabet(response: str) -> bool:
    """From any letter on; a follows z."""
    places = [_ALPHABET.find(word[0]) for word in plain_words(response)]
    steps = all((b - a) % 26 == 1 for a, b in pairwise(places))
    return bool(places) and min(places) >= 0 and steps


def has_palindrome(response: str) -> bool:
    """A word of at least three letters: every response has an "a"."""
    return any(len(word) > 2 and word == word[::-1] for word in plain_words(response))


def ten_palindromes(response: str) -> bool:
    """Of at least five characters."""
    return sum(len(word) > 4 and word == word[::-1] for word in plain_words(response)) >= 10


def prime_lengths(response: str) -> bool:
    lengths = {len(word) for word in plain_words(response)}
    return bool(lengths) and all(_is_prime(length) for length in lengths)


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def consonant_clusters(response: str) -> bool:
    found = plain_words(response)
    return bool(found) and all(_CLUSTER.search(word) for word in found)


def three_vowels(response: str) -> bool:
    """One paragraph with at most three of a, e, i, o, u."""
    return bool(words(response)) and "\n" not in response.strip() and len(set("aeiou") & set(response.casefold())) <= 3
