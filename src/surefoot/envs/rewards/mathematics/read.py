r"""Cleaned text -> shape. Whatever cannot be read as mathematics is words; nothing raises."""

import re
from collections.abc import Callable
from fractions import Fraction

from surefoot.envs.rewards.mathematics.expression import (
    Call,
    Node,
    Number,
    Symbol,
    Unreadable,
    parse_expression,
    symbols,
)
from surefoot.envs.rewards.mathematics.intervals import inequality, without
from surefoot.envs.rewards.mathematics.shape import (
    EMPTY,
    INFINITY,
    REALS,
    Approximate,
    Assigned,
    Bracket,
    Choice,
    Formula,
    Items,
    Matrix,
    Named,
    Quantity,
    Ratio,
    Relation,
    SetOf,
    Shape,
    Union,
    Words,
    minus,
)
from surefoot.envs.rewards.mathematics.split import enclosed, join_thousands, split_top
from surefoot.envs.rewards.mathematics.units import split_unit

MAX_DEPTH = 12
_OR, _AND = "\x1e", "\x1f"
_LISTS = frozenset([",", ";", _OR, _AND])
_RELATIONS = frozenset(["=", "<", ">", r"\le", r"\ge", r"\ne", r"\approx"])
_BASES = "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
_SAME_WORDS: dict[str, Shape] = {
    "infinity": Quantity(INFINITY),
    "negative infinity": Quantity(Call("neg", (INFINITY,))),
    "dne": Words("does not exist"),
    "none": Words("no solution"),
    "no solutions": Words("no solution"),
    "empty set": EMPTY,
    "the empty set": EMPTY,
    "all real numbers": REALS,
    "all reals": REALS,
    "all real": REALS,
    "the real numbers": REALS,
}
_LETTERED = re.compile(r"\(([A-J])\)[\s.:]*(?![\s.:+*/^(=-]).+|([A-J])[.):]\s+\S.*")
_NAME = re.compile(
    r"(?:[A-Za-z]|\\(?!text|frac|sqrt|pi\b)[a-zA-Z]+)(?:\s*_\s*(?:\{[^{}]*\}|\w))?\s*'*(?:\s*\([^()=]*\))?"
    r"|[A-Za-z]\s*\^\s*\{\s*-1\s*\}\s*\([^()=]*\)"
    r"|[A-Z]{2,4}|\\(?:angle|overline|triangle|text)\s*(?:\{[^{}]*\}|[A-Z]+)(?:\s*\([^()]*\))?|\|[A-Z]{2}\|"
    r"|[A-Za-z](?:_\{?\w\}?)?(?:\s*[-+:]\s*[A-Za-z](?:_\{?\w\}?)?)+|\\frac\s*\{[A-Z]{2}\}\s*\{[A-Z]{2}\}|\\frac\s*\{d\^?2?y\}\s*\{dx\^?2?\}"
)
_MATRIX = re.compile(
    r"(?P<factor>[^&]*?)\s*\\begin\s*\{(?P<kind>[pb]?matrix|array|smallmatrix)\}(?:\s*\{[lcr| ]*\})?(?P<cells>.*?)"
    r"\\end\s*\{(?P=kind)\}(?P<transposed>\s*\^\s*\{?\s*(?:T|\\top|\\text\{T\})\s*\}?)?"
)
_PERCENT = re.compile(r"(?P<number>.*\S)\s*(?:%|\\text\{\s*percent\s*\}|(?<![a-zA-Z])(?:percent|pct))")
_SCALES = {"thousand": "10^{3}", "million": "10^{6}", "billion": "10^{9}", "trillion": "10^{12}"}
_SCALED = re.compile(
    r"(?P<number>[-+]?[\d.]+)\s*(?:\\text\{\s*)?(?P<scale>" + "|".join(_SCALES) + r")(?:\s*\})?(?P<rest>.*)"
)


def read(text: str) -> Shape:
    r"""The shape of cleaned text.

    >>> read("x = 5")
    Named(name='x', value=Quantity(node=Number(value=Fraction(5, 1)), unit='', percent=False))
    """
    text = re.sub(r" != ?", r"\\ne ", re.sub(r"<\s*=", r"\\le ", re.sub(r">\s*=", r"\\ge ", text)))
    text = re.sub(r"\\text\{\s*,?\s*(or|and)\s*\}|,?(?<![a-zA-Z])\b(or|and)\b", _conjunction, text)
    return _read(text, 0)


def _conjunction(match: re.Match[str]) -> str:
    return _OR if "or" in (match[1], match[2]) else _AND


def _read(text: str, depth: int) -> Shape:
    text = text.strip()
    if depth > MAX_DEPTH:
        return words(text)
    for reader in _READERS:
        shape = reader(text, depth)
        if shape is not None:
            return shape
    return Formula(text) if re.search(r"\\(?!text)[a-zA-Z]", text) else words(text)


def words(text: str) -> Words:
    """Letters and digits alone count, and not their case."""
    text = re.sub(r"\b([ap])\.\s?m\b", r"\1m", text, flags=re.IGNORECASE)
    plain = re.sub(r"\\[a-zA-Z]+", " ", text.casefold().replace(_OR, " or ").replace(_AND, " and "))
    return Words(" ".join(re.sub(r"[^\w+./<>=^:-]|(?<!\d)\.(?!\d)", " ", plain).strip(" .").split()))


def _wording(text: str, depth: int) -> Shape | None:
    """Words as a whole: yes, no solution, Monday; two letters are a word too, never a product."""
    plain = re.sub(r"\\text\{([^{}]*)\}", r" \1 ", text).strip()
    if text in (r"\emptyset", r"\mathbb{R}"):
        return EMPTY if text == r"\emptyset" else REALS
    if re.fullmatch(r"\(?\s*[A-Z]\s*\)?", plain):
        return Choice(plain.strip("() "), False)
    if match := _LETTERED.fullmatch(plain):
        return Choice(match[1] or match[2], True)
    spelt = words(plain)
    if spelt.text in _SAME_WORDS:
        return _SAME_WORDS[spelt.text]
    if re.fullmatch(r"[A-Za-z' .-]{2,}!?", plain) and _read_node(plain) in (None, *_products(plain)):
        return spelt
    return None


def _products(plain: str) -> list[Node | None]:
    """Letters that parse, as `no` does into n times o, are a word unless they name something known."""
    node = _read_node(plain)
    return [node] if not isinstance(node, Symbol) and re.fullmatch(r"[A-Za-z' .!]+", plain) else []


def _union(text: str, depth: int) -> Shape | None:
    pieces, marks = split_top(text, frozenset([r"\cup"]))
    if marks:
        return Union(tuple(_read(piece, depth + 1) for piece in pieces))
    reals, _, points = text.partition(r"\setminus")
    removed = _read(points, depth + 1) if reals.strip() == r"\mathbb{R}" else None
    nodes = [p.node for p in removed.items if isinstance(p, Quantity)] if isinstance(removed, SetOf) else []
    return without(nodes) if isinstance(removed, SetOf) and len(nodes) == len(removed.items) else None


def _matrix(text: str, depth: int) -> Shape | None:
    match = _MATRIX.fullmatch(text)
    factor = _read_node(match["factor"] or "1") if match else None
    if match is None or factor is None:
        return None
    rows = [row.split("&") for row in re.split(r"\\\\", match["cells"]) if row.strip()]
    shapes = [[_scaled(_read(cell, depth + 1), factor) for cell in row] for row in rows]
    if match["transposed"] and len({len(row) for row in shapes}) == 1:
        shapes = [list(column) for column in zip(*shapes, strict=True)]
    return Matrix(tuple(map(tuple, shapes)))


def _scaled(shape: Shape, factor: Node) -> Shape:
    return Quantity(Call("*", (factor, shape.node))) if isinstance(shape, Quantity) else shape


def _bracket(text: str, depth: int) -> Shape | None:
    found = enclosed(text)
    if found is None:
        return None
    opening, inside, closing = found
    # Inside brackets a comma without a space, where none has one, separates: (1,234) is a point.
    pieces, marks = split_top(inside, frozenset([",", ";"]), thousands=", " in inside)
    listed = bool(marks)
    if opening == r"\{" or (opening == "{" and listed):
        if closing not in (r"\}", "}") or re.search(r"\||:|\\in(?![a-z])", inside):
            return None
        return SetOf(tuple(_read(piece, depth + 1) for piece in pieces)) if inside else EMPTY
    if not listed:
        shape = _read(inside, depth + 1)
        return shape if isinstance(shape, Matrix) or opening + closing in ("()", "{}") else None
    return Bracket(opening, tuple(_read(piece, depth + 1) for piece in pieces), closing)


def _list(text: str, depth: int) -> Shape | None:
    pieces, marks = split_top(text, _LISTS)
    pieces = [piece for piece in pieces if piece]
    if not marks or not pieces:
        return None
    shapes = [_read(piece, depth + 1) for piece in pieces]
    intervals = [s.value if isinstance(s, Named) else s for s in shapes]
    if all(isinstance(s, Bracket) for s in intervals) and isinstance(shapes[0], Named) and set(marks) == {_OR}:
        return Named(shapes[0].name, Union(tuple(intervals)))
    return _named_list(shapes)


def _named_list(shapes: list[Shape]) -> Shape:
    """x = 2 or x = 3, and x = 2, 3, are values of one name; x = 2, y = 3 are one value each."""
    flat = [item for shape in shapes for item in (shape.items if isinstance(shape, Items) else [shape])]
    if len(flat) == 1:
        return flat[0]
    names = [shape.name for shape in flat if isinstance(shape, Named)]
    values = [shape.value if isinstance(shape, Named) else shape for shape in flat]
    if names and isinstance(flat[0], Named) and len(set(names)) == 1:
        return Named(names[0], _named_list(values))
    if len(set(names)) == len(flat):
        return Assigned(tuple(zip(names, values, strict=True)))
    return Items(tuple(flat))


def _membership(text: str, depth: int) -> Shape | None:
    pieces, marks = split_top(text, frozenset([r"\in"]))
    if len(marks) != 1 or not _NAME.fullmatch(pieces[0]):
        return None
    return Named(_name(pieces[0]), _read(pieces[1], depth + 1))


def _relation(text: str, depth: int) -> Shape | None:
    pieces, marks = split_top(text, _RELATIONS)
    if not marks or not pieces[-1]:
        return None
    if r"\approx" in marks:
        return _approximate(text, depth)
    if set(marks) == {"="}:
        return _equation(pieces, depth)
    nodes = [node for piece in pieces if (node := _read_node(piece)) is not None]
    return inequality(nodes, marks) if len(nodes) == len(pieces) else None


def _approximate(text: str, depth: int) -> Shape | None:
    left, _, right = text.partition(r"\approx")
    if _NAME.fullmatch(left.strip()):
        return Named(_name(left), _read(right, depth + 1))
    return Approximate(_read(left, depth + 1), _read(right, depth + 1))


def _equation(pieces: list[str], depth: int) -> Shape | None:
    first, last = pieces[0], pieces[-1]
    value = _read(last, depth + 1)
    if not first or (_is_constant(first) and _is_constant(last)):
        return value
    if (names := _name_list(first)) and isinstance(value, Bracket) and len(names) == len(value.items):
        return Assigned(tuple(zip(names, value.items, strict=True)))
    if _NAME.fullmatch(first):
        return Named(_name(first), value)
    if _NAME.fullmatch(last):  # 5 = x
        left = _read(first, depth + 1)
        if isinstance(left, Quantity) and not symbols(left.node) & {_name(last)}:
            return Named(_name(last), left)
    left_node, right_node = _read_node(first), _read_node(last)
    return None if left_node is None or right_node is None else Relation("=", minus(left_node, right_node))


def _plus_minus(text: str, depth: int) -> Shape | None:
    if not re.search(r"\\(?:pm|mp)(?![a-zA-Z])", text):
        return None
    signs = [(r"\pm", "+", "-"), (r"\mp", "-", "+")]
    upper = lower = text
    for sign, above, below in signs:
        upper, lower = upper.replace(sign, above), lower.replace(sign, below)
    return _named_list([_read(upper, depth + 1), _read(lower, depth + 1)])


def _ratio(text: str, depth: int) -> Shape | None:
    pieces, marks = split_top(text, frozenset([":"]))
    nodes = [node for piece in pieces if (node := _read_node(piece)) is not None]
    time = bool(re.fullmatch(r"[0-2]?\d:[0-5]\d(:[0-5]\d)?", text.replace(" ", "")))
    return Ratio(tuple(nodes), time) if marks and len(nodes) == len(pieces) else None


def _quantity(text: str, depth: int) -> Shape | None:
    text = join_thousands(text)
    if based := _based(text):
        return based
    if match := _PERCENT.fullmatch(text):
        node = _read_node(match["number"])
        return None if node is None else Quantity(node, percent=True)
    number, unit = split_unit(text)
    if match := _SCALED.fullmatch(text):
        number, unit = split_unit(match["number"] + "*" + _SCALES[match["scale"]] + match["rest"])
        currency = split_unit(match["number"])[1]
        unit = unit or currency
    node = _read_node(number)
    return None if node is None else Quantity(node, unit)


def _based(text: str) -> Shape | None:
    """1011_2: digits as they are written, and the base as their unit."""
    text = re.sub(r"\\text\{\s*(\w+)\s*\}| ", r"\1", text)
    match = re.fullmatch(r"\(?([\dA-F]+)\)?_\{?(\d+|[a-z]{3,})\}?", text)
    if match is None or not re.search(r"\d", match[1]):
        return None
    base = str(_BASES.split().index(match[2]) + 2) if match[2] in _BASES.split() else match[2]
    digits = Number(Fraction(match[1])) if match[1].isdigit() else Symbol(match[1])
    return Quantity(digits, f"base {base}")


def _read_node(text: str) -> Node | None:
    """The expression, with thousands and mixed numbers such as 3 1/2; None where it is none."""
    text = join_thousands(text.strip())
    text = re.sub(r"(?<![\d.^_])(\d+) (\d+)\s*/\s*(\d+)(?![\d.])", r"\1\\frac{\2}{\3}", text)
    text = re.sub(r"\\text\s*\{\s*([A-Za-z])\s*\}", r" \1 ", text)
    try:
        return parse_expression(text)
    except Unreadable:
        return None


def _is_constant(text: str) -> bool:
    node = _read_node(text)
    return node is not None and node != INFINITY and not symbols(node)


def _name_list(text: str) -> list[str]:
    """The names of "(x, y)", else none."""
    found = enclosed(text)
    if found is None:
        return []
    pieces, _ = split_top(found[1], frozenset(","))
    return [_name(piece) for piece in pieces] if all(map(_NAME.fullmatch, pieces)) else []


def _name(text: str) -> str:
    return re.sub(r"[\s{}\\]", "", text)


_READERS: tuple[Callable[[str, int], Shape | None], ...] = (
    _wording,
    _union,
    _matrix,
    _bracket,
    _list,
    _membership,
    _relation,
    _plus_minus,
    _ratio,
    _quantity,
)
