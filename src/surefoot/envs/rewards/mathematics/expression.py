r"""LaTeX or plain text of one expression -> a tree. Nothing is evaluated, so size and depth are bounded here alone.

sum     = [sign] product {sign product}
product = factor {("*" | "/" | nothing) factor}
factor  = sign factor | power
power   = primary {"!" | "%" | "^" exponent}
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

MAX_DEPTH = 40  # of brackets, roots and exponents
MAX_HEIGHT = 100  # of the tree: x x x x and 5%%%% grow without a bracket
MAX_DIGITS = 5000  # of a number's exponent: 1e4000 is read, 1e400000 is not
_GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau upsilon phi chi psi omega "
    "Gamma Delta Theta Lambda Xi Sigma Upsilon Phi Psi Omega infty ell hbar"
)
_FUNCTIONS = "sin cos tan cot sec csc arcsin arccos arctan arccot sinh cosh tanh ln log lg exp"
GREEK, FUNCTIONS = frozenset(_GREEK.split()), frozenset(_FUNCTIONS.split())
_WORDS = FUNCTIONS | {"sqrt", "pi", "infty", "abs", "theta", "alpha", "beta"}
_PLAIN = {"infinity": "infty", "inf": "infty", "oo": "infty", "asin": "arcsin", "acos": "arccos", "atan": "arctan"}
_PAIRS = {"(": ")", "[": "]", "{": "}"}
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.(?=\s*\\overline)|(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?)|\\(?P<command>[a-zA-Z]+)"
    r"|(?P<word>(?:" + "|".join(sorted(_WORDS | set(_PLAIN), key=len, reverse=True)) + r")(?![a-zA-Z]))"
    r"|(?P<letter>[a-zA-Z])|(?P<mark>[-+*/^_!()\[\]{}|%]))"
)


class Unreadable(Exception):
    """The text is no expression this grammar knows."""


@dataclass(frozen=True, slots=True)
class Number:
    value: Fraction


@dataclass(frozen=True, slots=True)
class Symbol:
    name: str  # "pi", "e" and "i" are the constants


@dataclass(frozen=True, slots=True)
class Call:
    name: str  # + * / ^ neg ! root abs floor ceil binom, a function, or "log" with a base behind its argument
    args: "tuple[Node, ...]"


Node = Number | Symbol | Call
_CLOSING = frozenset(["rfloor", "rceil", "over", "choose"])  # commands that begin no factor


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str


def parse_expression(text: str) -> Node:
    r"""The tree of cleaned text. Raises `Unreadable` for what is no expression, and for what is nested too deep.

    >>> parse_expression(r"2\frac12")
    Call(name='+', args=(Number(value=Fraction(2, 1)), Number(value=Fraction(1, 2))))
    """
    parser = _Parser(_tokens(text))
    tree = parser.whole()
    if parser.peek():
        raise Unreadable(f"{parser.peek()!r} is left over")
    level: list[Node] = [tree]
    for _ in range(MAX_HEIGHT):
        level = [arg for node in level if isinstance(node, Call) for arg in node.args]
    if level:
        raise Unreadable("too high a tree")
    return tree


def symbols(node: Node) -> frozenset[str]:
    """Names of the free symbols, without the constants."""
    if isinstance(node, Symbol):
        return frozenset() if node.name in ("pi", "e", "i") else frozenset([node.name])
    return frozenset().union(*map(symbols, node.args)) if isinstance(node, Call) else frozenset()


def _tokens(text: str) -> list[Token]:
    tokens, position, end = [], 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise Unreadable(f"cannot read {text[position : position + 20]!r}")
        kind, token = match.lastgroup, match[match.lastgroup]
        if kind == "word":
            kind, token = "command", _PLAIN.get(token, token)
        tokens.append(Token(kind, token))
        position = match.end()
    return tokens


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.at = 0
        self.depth = 0

    def peek(self) -> str:
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def kind(self) -> str:
        return self.tokens[self.at].kind if self.at < len(self.tokens) else ""

    def take(self) -> str:
        if self.at >= len(self.tokens):
            raise Unreadable("it ends too early")
        self.at += 1
        return self.tokens[self.at - 1].text

    def expect(self, text: str) -> None:
        if (found := self.take()) != text:
            raise Unreadable(f"{text!r} expected, {found!r} found")

    def whole(self) -> Node:
        r"""A sum, or plain TeX's 7 \over 10."""
        node = self.sum()
        if self.peek() in ("over", "choose"):
            return Call("/" if self.take() == "over" else "binom", (node, self.sum()))
        return node

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable("nested too deep")

    def sum(self) -> Node:
        terms = [self.signed(self.product)]
        while self.peek() in ("+", "-") and self.kind() == "mark":
            terms.append(self.signed(self.product))
        return terms[0] if len(terms) == 1 else Call("+", tuple(terms))

    def signed(self, inner: Callable[[], Node]) -> Node:
        negative = False
        while self.kind() == "mark" and self.peek() in ("+", "-"):
            negative ^= self.take() == "-"
        node = inner()
        return Call("neg", (node,)) if negative else node

    def product(self) -> Node:
        node = self.factor()
        while True:
            if self.kind() == "mark" and self.peek() in ("*", "/"):
                operator = self.take()
                node = Call(operator, (node, self.signed(self.factor)))
            elif self.starts_factor():
                node = Call("*", (node, self.factor()))
            else:
                return node

    def starts_factor(self) -> bool:
        """Whether what follows multiplies without a sign. Two numbers side by side, and x2, are no product."""
        kind, text = self.kind(), self.peek()
        if kind == "number":
            return self.tokens[self.at - 1].kind == "mark" and self.tokens[self.at - 1].text in ")]}"
        return (
            kind == "letter"
            or (kind == "command" and text not in _CLOSING)
            or (kind == "mark" and text in ("(", "[", "{"))
        )

    def factor(self) -> Node:
        node = self.primary()
        while self.kind() == "mark" and self.peek() in ("!", "%", "^"):
            node = self.suffix(node)
        return node

    def suffix(self, node: Node) -> Node:
        mark = self.take()
        if mark == "!":
            if self.peek() == "!":
                raise Unreadable("double factorial")
            return Call("!", (node,))
        if mark == "%":
            return Call("/", (node, Number(Fraction(100))))
        return Call("^", (node, self.exponent()))

    def exponent(self) -> Node:
        """Behind ^: a group, or one signed number, letter or command. Powers associate to the right."""
        self.deeper()
        if self.peek() == "{":
            node = self.group()
            self.depth -= 1
            return node
        # Not number(): x^2\frac{1}{2} has no mixed number in its exponent.
        node = self.signed(lambda: Number(Fraction(self.take())) if self.kind() == "number" else self.primary())
        if self.peek() == "^":
            self.take()
            node = Call("^", (node, self.exponent()))
        self.depth -= 1
        return node

    def group(self) -> Node:
        self.expect("{")
        node = self.whole()
        self.expect("}")
        return node

    def argument(self) -> Node:
        r"""A macro's argument: a group or, as in \frac12, one token of which a number gives its first digit."""
        if self.peek() == "{":
            return self.group()
        if self.kind() == "number":
            return Number(Fraction(self.digit()))
        return self.primary()

    def digit(self) -> str:
        text = self.tokens[self.at].text
        if not text.isdigit():
            raise Unreadable(f"{text!r} is no argument")
        if len(text) == 1:
            self.at += 1
        else:
            self.tokens[self.at] = Token("number", text[1:])
        return text[0]

    def primary(self) -> Node:
        self.deeper()
        node = self.plain_primary()
        self.depth -= 1
        return node

    def plain_primary(self) -> Node:
        kind = self.kind()
        if kind == "number":
            return self.number()
        if kind == "letter":
            return Symbol(self.subscripted(self.take()))
        if kind == "command":
            return self.command()
        opening = self.take()
        if opening in _PAIRS:
            node = self.whole()
            self.expect(_PAIRS[opening])
            return node
        if opening == "|":
            node = self.sum()
            self.expect("|")
            return Call("abs", (node,))
        raise Unreadable(f"{opening!r} begins nothing")

    def subscripted(self, name: str) -> str:
        """x_1, x_{12} and a_n are names of their own."""
        if self.peek() != "_":
            return name
        self.take()
        if self.peek() != "{":
            return f"{name}_{self.take()}"
        self.take()
        parts = []
        while self.peek() not in ("}", "{", ""):
            parts.append(self.take())
        self.expect("}")
        return f"{name}_{''.join(parts)}"

    def number(self) -> Node:
        text = self.take()
        exponent = re.split("[eE]", text)[1:]
        if exponent and abs(int(exponent[0][:9])) > MAX_DIGITS:
            raise Unreadable("a number of too many digits")
        value = Fraction(text)
        if self.peek() == "overline" and "." in text:
            return self.repeating(text)
        if text.isdigit() and self.peek() == "frac":
            return self.mixed(value)
        return Number(value)

    def repeating(self, text: str) -> Node:
        r"""0.1\overline{6}: what is under the line repeats for ever."""
        self.take()
        self.expect("{")
        period = self.take()
        self.expect("}")
        if not period.isdigit():
            raise Unreadable("no digits repeat")
        scale = Fraction(10) ** len(text.split(".")[1])
        return Number(Fraction(text) + Fraction(int(period), 10 ** len(period) - 1) / scale)

    def mixed(self, whole: Fraction) -> Node:
        r"""3\frac{1}{2} is three and a half; 3\frac{x}{2} is a product."""
        node = self.command()
        if isinstance(node, Call) and node.name == "/" and all(isinstance(part, Number) for part in node.args):
            top, bottom = (part.value for part in node.args if isinstance(part, Number))
            if bottom:
                return Call("+", (Number(whole), Number(top / bottom)))
        return Call("*", (Number(whole), node))

    def command(self) -> Node:
        name = self.take()
        if name in ("frac", "binom"):
            args = (self.argument(), self.argument())
            return Call("/" if name == "frac" else "binom", args)
        if name == "sqrt":
            return self.root()
        if name in FUNCTIONS:
            return self.function(name)
        if name == "abs":
            return Call("abs", (self.argument(),))
        if name in ("lfloor", "lceil"):
            node = self.sum()
            self.expect("r" + name[1:])
            return Call(name[1:], (node,))
        if name == "pi" or name in GREEK:
            return Symbol(self.subscripted(name))
        raise Unreadable(f"\\{name}")

    def root(self) -> Node:
        degree: Node = Number(Fraction(2))
        if self.peek() == "[":
            self.take()
            degree = self.sum()
            self.expect("]")
        return Call("root", (self.argument() if self.kind() != "number" else self.primary(), degree))

    def function(self, name: str) -> Node:
        r"""\sin 2x, \sin^2 x, \sin^{-1} x, \log_2 8."""
        base = power = None
        while self.peek() in ("_", "^"):
            if self.take() == "_":
                base = self.subscript()
            else:
                power = self.exponent()
        argument = self.function_argument()
        if power == Call("neg", (Number(Fraction(1)),)) and "arc" + name in FUNCTIONS:
            return Call("arc" + name, (argument,))
        node = Call(name, (argument,) if base is None else (argument, base))
        return node if power is None else Call("^", (node, power))

    def subscript(self) -> Node:
        r"""\log_{10} x, \log_10 x, and \log_28, where TeX ends the base behind one digit."""
        if self.kind() == "number" and self.at + 1 < len(self.tokens):
            return self.number()
        return self.argument()

    def function_argument(self) -> Node:
        if self.kind() == "mark" and self.peek() in ("(", "{", "[", "|"):
            return self.primary()
        node = self.signed(self.factor)
        while self.starts_factor() and self.kind() != "mark" and self.peek() not in FUNCTIONS:
            node = Call("*", (node, self.factor()))
        return node
