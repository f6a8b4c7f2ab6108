r"""The unit behind a number: found, and brought to one spelling. Nothing is converted: 1 m is not 100 cm."""

import re

_SPELLINGS = {
    "dollar": "$", "usd": "$", "us dollar": "$", "buck": "$", "euro": "€", "eur": "€", "pound sterling": "£",
    "gbp": "£", "cent": "¢", "centimeter": "cm", "centimetre": "cm", "millimeter": "mm", "millimetre": "mm",
    "meter": "m", "metre": "m", "kilometer": "km", "kilometre": "km", "inch": "in", "inche": "in", "foot": "ft",
    "feet": "ft", "yard": "yd", "mile": "mi", "gram": "g", "kilogram": "kg", "kilo": "kg", "milligram": "mg",
    "pound": "lb", "ounce": "oz", "ton": "t", "tonne": "t", "second": "s", "sec": "s", "minute": "min",
    "hour": "h", "hr": "h", "liter": "l", "litre": "l", "milliliter": "ml", "millilitre": "ml", "mph": "mi/h",
    "mile per hour": "mi/h", "kph": "km/h", "kmh": "km/h", "kmph": "km/h", "kilometer per hour": "km/h",
    "meter per second": "m/s", "degree": "°", "deg": "°", "radian": "rad", "newton": "n", "joule": "j",
    "watt": "w", "volt": "v", "ampere": "a", "amp": "a", "kelvin": "k", "hertz": "hz", "people": "person",
    "men": "man", "women": "woman", "children": "child", "degree celsius": "°c", "degree fahrenheit": "°f",
}  # fmt: skip
_KNOWN = frozenset(_SPELLINGS) | frozenset(_SPELLINGS.values())
_SINGLE = frozenset("mgshLlNJWVAKtC")
_NO_UNIT = (
    "is are not if when where or and to than with without for remainder mod modulo plus minus times over by at most "
    "least about base pi sqrt sin cos tan log ln exp infinity inf oo theta alpha beta more less but factorial "
    "choose squared cubed half"
)
_TEXT = re.compile(r"(?P<head>.*?)\\text\{(?P<words>[^{}]*)\}(?P<power>\s*\^\s*\{?[23]\}?)?\s*")
_PLAIN = re.compile(r"(?P<head>.*[\d)}%!])(?P<gap>\s*)(?P<words>[A-Za-z][A-Za-z./ ]*)(?P<power>\^\{?[23]\}?)?")
_CURRENCY = re.compile(r"(?P<sign>[-+]?)\s*(?P<mark>\\?\$|[€£¥₹]|\\text\{\s*\\?[$€£¥]\s*\})\s*(?P<rest>[-+]?[\d.\\].*)")
_CURRENCY_BEHIND = re.compile(r"(?P<head>[-+]?[\d.,]+)\s*(?P<mark>\\?\$|[€£¥₹¢])")
_DEGREES = re.compile(r"(?P<head>.+?)\s*\^\s*\\circ\s*(?:\\text\{\s*(?P<a>[CF])\s*\}|(?P<b>[CF]))?")


def split_unit(text: str) -> tuple[str, str]:
    r"""(number, unit) of cleaned text; the unit is "" where there is none.

    >>> split_unit(r"9\text{ kg}"), split_unit("$5"), split_unit("12 square meters"), split_unit("5x")
    (('9', 'kg'), ('5', '$'), ('12', 'm^2'), ('5x', ''))
    """
    if match := _CURRENCY.fullmatch(text):
        rest, named = split_unit(match["rest"])
        mark = match["mark"].strip("\\ ").removeprefix("text{").rstrip("} ").strip("\\ ")
        return match["sign"] + rest, mark if named in ("", mark) else named
    if match := _CURRENCY_BEHIND.fullmatch(text):
        return match["head"], match["mark"].strip("\\")
    if match := _DEGREES.fullmatch(text):
        return match["head"], "°" + (match["a"] or match["b"] or "").lower()
    text = re.sub(r"\\text\{([^{}]*)\}\s*([/*])\s*\\text\{([^{}]*)\}", r"\\text{\1\2\3}", text)
    if (match := _TEXT.fullmatch(text)) and match["head"].strip() and _is_unit(match["words"]):
        return match["head"].strip(), _spell(match["words"], match["power"])
    if (match := _PLAIN.fullmatch(text)) and _is_plain_unit(match["words"], match["gap"]):
        return match["head"].strip(), _spell(match["words"], match["power"])
    return text, ""


def same_unit(a: str, b: str) -> bool:
    """A unit may be left out; two that are written must be the same."""
    return not a or not b or a == b


def _is_unit(words: str) -> bool:
    parts = re.findall(r"[A-Za-z]+|\d+", words.lower())
    return (
        0 < len(parts) <= 4
        and not set(_NO_UNIT.split()) & (set(parts) - {"squared", "cubed"})
        and not re.search(r"\d", words)
    )


def _is_plain_unit(words: str, gap: str) -> bool:
    """5 m and 5cm carry units; 5m, 5x and 5 x are algebra."""
    name = words.strip()
    if name.lower() in _KNOWN or _singular(name.lower()) in _KNOWN:
        return len(name) > 1 or (bool(gap) and name in _SINGLE)
    return bool(gap) and _is_unit(words) and len(re.findall("[A-Za-z]+", words)[0]) > 2


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 2 and word.endswith("s") and not word.endswith("ss") else word


def _spell(words: str, power: str | None) -> str:
    name = " ".join(_singular(word) for word in re.sub(r"[.]", " ", words.lower()).split())
    exponent = re.sub(r"[\s^{}]", "", power or "")
    for pattern, value in (
        (r"(?:square|sq) (.+)", "2"),
        (r"(.+) squared", "2"),
        (r"cubic (.+)", "3"),
        (r"(.+) cubed", "3"),
    ):
        if match := re.fullmatch(pattern, name):
            name, exponent = match[1], value
    name = "/".join(
        _SPELLINGS.get(part.strip(), part.strip()) for part in re.split("/| per ", _SPELLINGS.get(name, name))
    )
    return f"{name}^{exponent}" if exponent else name
