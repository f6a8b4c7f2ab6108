r"""One spelling for what is written in many: Unicode, delimiters, spacing, \dfrac, \left, \cdot.

Meaning is not touched here: numbers, lists and units are read in `shape`.
"""

import re
import unicodedata

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_SYMBOLS = {
    "−": "-", "–": "-", "‐": "-", "‑": "-", "﹣": "-", "－": "-", "×": "*", "·": "*", "⋅": "*", "∙": "*", "÷": "/",
    "⁄": "/", "∕": "/", "√": r"\sqrt ", "∞": r"\infty ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "≈": r"\approx ",
    "°": r"^\circ ", "º": r"^\circ ", "±": r"\pm ", "∓": r"\mp ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ",
    "∅": r"\emptyset ", "ℝ": r"\mathbb{R}", "∠": r"\angle ", "△": r"\triangle ", "⟨": "(", "⟩": ")", "…": r"\ldots ",
    "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ", "δ": r"\delta ", "ε": r"\epsilon ", "θ": r"\theta ",
    "λ": r"\lambda ", "μ": r"\mu ", "π": r"\pi ", "ρ": r"\rho ", "σ": r"\sigma ", "τ": r"\tau ", "φ": r"\phi ",
    "ϕ": r"\phi ", "χ": r"\chi ", "ψ": r"\psi ", "ω": r"\omega ", "Δ": r"\Delta ", "Ω": r"\Omega ", "Γ": r"\Gamma ",
    "½": r"\frac{1}{2}", "⅓": r"\frac{1}{3}", "⅔": r"\frac{2}{3}", "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}",
    "⅕": r"\frac{1}{5}", "⅖": r"\frac{2}{5}", "⅗": r"\frac{3}{5}", "⅘": r"\frac{4}{5}", "⅙": r"\frac{1}{6}",
    "⅚": r"\frac{5}{6}", "⅛": r"\frac{1}{8}", "⅜": r"\frac{3}{8}", "⅝": r"\frac{5}{8}", "⅞": r"\frac{7}{8}",
}  # fmt: skip
_COMMANDS = {  # a command -> its one spelling
    "dfrac": r"\frac", "tfrac": r"\frac", "cfrac": r"\frac", "dbinom": r"\binom", "tbinom": r"\binom",
    "choose": r"\choose", "cdot": "*", "times": "*", "ast": "*", "div": "/", "leq": r"\le", "leqslant": r"\le",
    "geq": r"\ge", "geqslant": r"\ge", "neq": r"\ne", "lt": "<", "gt": ">", "lbrace": r"\{", "rbrace": r"\}",
    "lbrack": "[", "rbrack": "]", "lparen": "(", "rparen": ")", "langle": "(", "rangle": ")", "lvert": "|",
    "rvert": "|", "vert": "|", "mid": "|", "varnothing": r"\emptyset", "degree": r"^\circ", "dots": r"\ldots",
    "cdots": r"\ldots", "varphi": r"\phi", "varepsilon": r"\epsilon", "vartheta": r"\theta", "infin": r"\infty",
    "approxeq": r"\approx", "simeq": r"\approx", "imath": "i", "textdegree": r"^\circ", "R": r"\mathbb{R}",
    "Reals": r"\mathbb{R}", "colon": ":", "euro": "€", "pounds": "£", "textdollar": r"\$",
    **dict.fromkeys(("displaystyle", "textstyle", "limits", "nolimits", "bf", "rm", "it", "boldmath"), ""),
    **dict.fromkeys(("left", "right"), ""),
    **{size + side: "" for size in ("big", "Big", "bigg", "Bigg") for side in ("", "l", "r", "m")},
    **dict.fromkeys(("quad", "qquad", "space", "thinspace", "enspace", "hspace", "allowbreak"), " "),
}  # fmt: skip
_NAMED = re.compile(r"\\operatorname\*?\s*\{([a-zA-Z]+)\}")
_BOX = re.compile(r"\\(?:boxed|fbox)(?![a-zA-Z])")
_TEXT = re.compile(r"\\(?:text|textbf|textit|textrm|textsf|texttt|textnormal|mathrm|mathbf|mathit|mathsf|mbox|hbox)"
                   r"(?![a-zA-Z])\s*\{")  # fmt: skip
_OPEN_DOT = re.compile(r"\\(?:left|right)\s*\.(?!\d)")


def clean(text: str) -> str:
    r"""`text` in this package's one spelling; \mathrm and its like become \text, delimiters of mathematics go.

    >>> clean(r"$\dfrac{1}{2}\cdot \left( −x² \right)$"), clean(r"9\mathrm{\,kg}.")
    ('\\frac {1}{2}* ( -x^{2} )', '9\\text{ kg}')
    """
    text = _unicode(text)
    # A line break of a matrix is consumed first, or its second half would be taken for a space's.
    text = re.sub(r"(\\\\)(?:\s*\[[\d.]+\w\w\])?|\\! ?|\\[()\[\],;: ]", _spacing, text)
    text = _dollars(text).replace("**", "^") if _is_power(text) else _dollars(text).replace("**", "").replace("`", "")
    text = _BOX.sub("", _NAMED.sub(r"\\\1 ", text))
    text = _OPEN_DOT.sub("", text)
    text = text.replace("~", " ")
    text = re.sub(r"\\([a-zA-Z]+)(?![a-zA-Z])", _command, text)
    text = _TEXT.sub(r"\\text{", text)
    text = re.sub(r"\\text\{([^{}a-zA-Z\\]*)\}", r" \1 ", text).replace(r"\%", "%")  # digits in bold type
    text = text.replace("{:}", ":")
    text = re.sub(r"\^\s*\{\s*\\circ\s*\}", r"^\\circ ", text)
    text = re.sub(r"\s+", " ", text).strip()
    return re.sub(r"(?<=\S)\s*[.,;:]+$", "", text)


def _unicode(text: str) -> str:
    text = re.sub(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+", lambda m: "^{" + m[0].translate(_SUPERSCRIPTS) + "}", text)
    text = re.sub(r"[₀₁₂₃₄₅₆₇₈₉]+", lambda m: "_{" + m[0].translate(_SUBSCRIPTS) + "}", text)
    text = "".join(_SYMBOLS.get(c, c) for c in text)
    return unicodedata.normalize("NFKC", text)


def _is_power(text: str) -> bool:
    """Whether ** is Python's power, as in x**2, and no bold type."""
    return bool(re.search(r"[\w)\]}]\s*\*\*\s*[\w({\-]", text)) and not text.lstrip().startswith("**")


def _dollars(text: str) -> str:
    """Pairs of $ delimit mathematics; a single one, or \\$, is currency."""
    bare = re.findall(r"(?<!\\)\$", text)
    return re.sub(r"(?<!\\)\$", " ", text) if len(bare) % 2 == 0 else text


def _spacing(match: re.Match[str]) -> str:
    return match[1] or ("" if match[0].startswith(r"\!") else " ")


def _command(match: re.Match[str]) -> str:
    spelling = _COMMANDS.get(match[1])
    if spelling is None:
        return match[0]
    # A command ends a word: without a space \cdot x and \le y would run into what follows.
    return spelling + " " if spelling[-1:].isalpha() else spelling
