r"""What is an answer's label and what is not, kind by kind. Written from mathematics, not from the code."""

import pytest

from surefoot.envs.rewards.mathematics.compare import is_right

RIGHT = {
    "integers": [
        ("42", "42"), ("42", "+42"), ("42", "42."), ("42", "042"), ("0", "-0"), ("42", "42.00"), ("42", "$42$"),
    ],
    "separators": [
        ("1, 234, 56", "1,234,56"), ("1.234", "1 234/1000"),
        ("48250", r"48\,250"), ("11111111", r"11,\! 111,\! 111"), ("48250", r"48,\!250"), ("1234567", "1,234,567"),
        ("1234.5", "1,234.5"), ("(1000, 2000)", "(1,000, 2,000)"), ("1000, 2000", "1,000, 2,000"),
    ],
    "signs": [
        ("-8", "−8"), ("-8", "–8"), ("-3/4", r"-\frac34"), (r"\frac{-3}{4}", r"-\frac{3}{4}"),
    ],
    "fractions": [
        ("1/2", r"\dfrac{1}{2}"), ("7/10", r"{7 \over 10}"), ("1/2", "2/4"), ("1/2", "0.5"), ("1/2", r"\frac12"),
        ("1/2", "½"), ("7/2", r"3\frac{1}{2}"), ("7/2", "3 1/2"), ("-7/2", r"-3\frac12"), ("7/2", "3½"),
        ("1/3", r"0.\overline{3}"), ("1/6", r"0.1\overline{6}"), ("1/2", r"\left(\frac{1}{2}\right)"),
    ],
    "percent": [
        ("12.5%", r"12.5\%"), ("50%", "1/2"), ("0.5", "50%"), ("28%", "28"), ("30%", "30 percent"),
    ],
    "units": [
        ("9", "9 kg"), (r"3\text{ m/s}", r"3\text{ m}/\text{s}"), ("5", "5€"), ("204", r"\mathbf{204}"),
        ("9 kg", "9"), ("9 cm", r"9\text{ centimeters}"), ("12 square meters", r"12\text{ m}^2"), ("5", r"\$5"),
        ("$5", "5 dollars"), ("90", r"90^\circ"), (r"90^\circ", "90 degrees"), ("60 mph", "60 miles per hour"),
        ("5000000", "5 million"), ("25", r"25\text{ cm}^2"), ("9", "9cm"), ("9", r"9\,\mathrm{cm}"),
    ],
    "roots": [
        (r"\sqrt{8}", r"2\sqrt{2}"), (r"\sqrt[3]{x}", "x^{1/3}"),
        (r"\frac{1}{3\sqrt[3]{x}^2}", r"\frac{1}{3x^{2/3}}"), (r"\sqrt[3]{-8}", "-2"),
        (r"\sqrt[3]{-2}", r"-\sqrt[3]{2}"), (r"\frac{1}{\sqrt2}", r"\frac{\sqrt{2}}{2}"),
        (r"\sqrt[3]{16}", r"2\sqrt[3]{2}"), (r"1+\sqrt{2}", r"\sqrt{3+2\sqrt{2}}"), ("sqrt(2)", r"\sqrt2"),
        ("2√3", r"2\sqrt{3}"), ("4", r"\sqrt{16}"), (r"\sqrt{-1}", "i"), ("2^{1/2}", r"\sqrt 2"),
    ],
    "pi": [
        (r"2\pi", "2π"), (r"2\pi", "2*pi"), (r"\frac{\pi}{2}", r"\pi/2"), (r"36\pi", r"36 \pi \text{ cm}^3"),
    ],
    "powers": [
        ("1024", "2^{10}"), ("2^{10}", "2^10"), (r"3.2\times10^5", "320000"), ("1.5e-3", "0.0015"),
        ("10^{-2}", "0.01"), ("2^{100000}", "2^{100000}"), ("x²", "x^2"), ("x**2", "x^2"),
    ],
    "functions": [
        (r"\sin 2x", r"2\sin x\cos x"), (r"\ln 8", r"3\ln 2"), (r"\log_2 8", "3"), (r"\log 100", "2"),
        (r"\sin^2 x+\cos^2 x", "1"), (r"\arctan 1", r"\pi/4"), (r"e^{i\pi}", "-1"),
        (r"\tan^{-1}(1)", r"\frac{\pi}{4}"), ("0", r"\sin \pi"), ("5!", "120"), (r"\binom{5}{2}", "10"),
        (r"\lfloor 2.5\rfloor", "2"), ("|x|", r"\sqrt{x^2}"), ("|-3|", "3"),
    ],
    "polynomials": [
        ("(x+1)^2", "x^2+2x+1"), ("2xy", "y*x*2"), ("x(x+1)", "x^2 + x"), (r"\frac{x^2-1}{x-1}", "x+1"),
        ("x_1+x_2", "x_2 + x_1"), ("a/b", r"\frac ab"), ("(-1)^{2n}", "1"), ("n!", "n(n-1)!"), (r"\theta", r"\theta"),
    ],
    "equations": [
        ("5", "x = 5"), ("x=5", "5"), ("5", "x = 2+3 = 5"), ("2x+1", "y = 2x+1"), ("y=2x+1", "2x - y + 1 = 0"),
        ("x^2", "f(x) = x^2"), ("x^2+y^2=4", "y^2 + x^2 - 4 = 0"), ("100", "m+n = 100"),
        ("60", r"\angle ABC = 60^\circ"), (r"\sqrt{10}", r"\sqrt{10} \approx 3.162"), ("5", r"\text{Area} = 5"),
        ("5", "5 = x"),
    ],
    "lists": [
        ("2,7", "7, 2"), ("x=-5, p=14/3", r"-5, \frac{14}{3}"), ("2,7", r"2\text{ and }7"),
        ("2,7", r"x=2 \text{ or } x=7"), (r"\pm 3", "3, -3"), (r"x = \pm 3", "x=-3, x=3"),
        (r"1\pm\sqrt2", r"1-\sqrt{2}, 1+\sqrt{2}"), ("2,7", r"\{7, 2\}"), ("x=1, y=2", "(1,2)"),
        ("(x,y)=(1,2)", "y=2, x=1"),
    ],
    "tuples": [
        ("(1,2)", r"\left(1, 2\right)"), ("(1,2,3)", "(1, 4/2, 3)"), ("(1,2)", "(x,y) = (1,2)"),
        ("(1,2)", r"\langle 1,2\rangle"), (r"(3,\frac{\pi}{2})", r"\left( 3, \frac{\pi}{2} \right)"),
        ("(1,2),(3,4)", "(3,4), (1,2)"),
    ],
    "sets": [
        (r"\{1,2\}", r"\{2,1\}"), (r"\{1,2\}", r"\{1,2,2\}"), (r"\emptyset", r"\varnothing"), (r"\{\}", r"\emptyset"),
    ],
    "intervals": [
        ("[0,1)", r"\left[0, 1\right)"), (r"(-\infty,3]", r"(-\infty, 3]"), ("(2,5)", "2 < x < 5"),
        ("x>2", r"(2,\infty)"), (r"x\ge 2", r"[2, +\infty)"), ("x>2", "2<x"),
        (r"(-\infty,0)\cup(1,\infty)", r"(1,\infty) \cup (-\infty,0)"), ("[1,2)", r"x \in [1,2)"),
        (r"(-\infty,1)\cup(3,\infty)", r"x<1\text{ or }x>3"), (r"\mathbb{R}", r"(-\infty,\infty)"),
        ("x<=3", r"x \leq 3"), ("2x>4", "x>2"), (r"-1\le x\le 1", r"|x|\le 1"), ("(1,5)", "|x-3|<2"),
        (r"(-\infty,1)\cup(1,\infty)", r"\mathbb{R}\setminus\{1\}"), (r"(-\infty,1)\cup(1,\infty)", r"x \ne 1"),
        (r"(-\infty,-2]\cup[2,\infty)", r"|x|\ge 2"),
    ],
    "matrices": [
        (r"\begin{pmatrix}2\\4\end{pmatrix}", r"2\begin{pmatrix}1\\2\end{pmatrix}"),
        (r"\begin{pmatrix}2\\4\end{pmatrix}", r"\begin{pmatrix}2&4\end{pmatrix}^T"),
        (r"\begin{pmatrix}1&2\end{pmatrix}", r"\left[\begin{array}{cc}1&2\end{array}\right]"),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}"),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix} 1 \\ \frac{4}{2} \end{pmatrix}"),
    ],
    "words": [
        ("Yes", "yes."), (r"\text{east}", "East"), ("no solution", r"\text{No solution}"), ("DNE", "does not exist"),
        ("Monday", r"\textbf{Monday}"),
    ],
    "choices": [
        ("B", "(B)"), ("(B)", r"\text{B}"), ("B", r"\textbf{(B)}"), ("B", "B."), ("B", "(B) 12"),
        ("B", r"\text{(B) } 12"), ("B", "B. twelve"),
    ],
    "bases": [
        ("1011_2", "1011_{2}"), ("1011_2", "(1011)_2"), ("1011_2", r"1011_{\text{two}}"),
        ("2A_{16}", r"2\text{A}_{16}"), ("1011_2", "1011"), ("12_{8}", "12_8"),
    ],
    "ratios": [
        ("3:4", "3 : 4"), ("7:32", "S:T = 7:32"), ("10:05", "10{:}05"), (r"3:30\text{ p.m.}", r"3:30 \text{ PM}"),
        ("3:4", "6:8"), ("3:4", "3/4"), ("1:2:3", "2:4:6"),
    ],
    "complex": [
        ("3+4i", "4i + 3"), ("i^2", "-1"), ("(1+i)^2", "2i"),
    ],
    "infinity": [
        (r"\infty", r"+\infty"), (r"\infty", r"\text{infinity}"), (r"-\infty", r"-\infty"), (r"\infty", "infinity"),
    ],
    "formulas": [
        (r"\int_0^1 x\,dx", r"\int_0^1 x \, dx"), (r"\sum_{k=1}^{3} k", r"\sum_{k=1}^3 k"),
    ],
}  # fmt: skip
WRONG = {
    "integers": [
        ("42", "43"), ("42", "24"), ("42", "420"), ("42", "4 2"), ("9007199254740995", "9007199254740996"),
    ],
    "separators": [
        ("123456", "1,234,56"), ("1234.56", "1,234,56"),
        ("2,7", "27"), ("48250", "48,25"), ("48250", "48.250"), ("1234", "1,2,3,4"), ("3.14", "3,14"),
        ("1,23", "123"), ("1,234", "1.234"),
    ],
    "signs": [
        ("-8", "8"), ("8", "-8"), ("-1/2", "1/2"), ("4", r"\pm 4"), (r"\pm 4", "4"),
    ],
    "fractions": [
        ("1/2", "1/3"), ("1/3", "0.333"), ("1/3", "0.3333333333"), ("2/3", "0.6667"), ("7/2", r"3\frac13"),
        ("1/2", "2"), ("22/7", r"\pi"), ("3/4", "0.74"), ("1/3", "0.(3)"), ("2", "2/0"),
    ],
    "percent": [
        ("0.5", "0.5%"), ("28", "28%"), ("12.5%", "1.25"), ("50%", "5"), ("50", "0.5"), ("50%", "50.5%"),
        ("50%", "0.5%"),
    ],
    "units": [
        ("9 kg", "9 g"), ("9 cm", "9 cm^2"), ("$5", "5 euros"), ("5 m", "500 cm"), ("30 degrees", "30 radians"),
        ("9", "8 kg"), ("5", "5x"), ("5 hours", "5 minutes"), ("5", "5 million"), ("5", "not 5"), ("5", "5 is wrong"),
    ],
    "roots": [
        (r"\sqrt{8}", r"2\sqrt{3}"), (r"\sqrt2", "1.414"), (r"\sqrt{2}", "1.41421356237309504880168872420969807857"),
        (r"\sqrt{2}+\sqrt{3}", r"\sqrt5"), (r"\sqrt[3]{2}", r"\sqrt{2}"), (r"\sqrt{50}", "7.07"),
    ],
    "pi": [
        (r"\pi", "3.14159265358979"), (r"\pi", "3.14"), (r"2\pi", r"\pi"), (r"\pi", r"\frac{355}{113}"),
    ],
    "powers": [
        (r"\sqrt{2}\cdot 2^{15000}\cdot 2^{15000}", r"\sqrt{2}\cdot 2^{15000}\cdot 2^{15000}+1"),
        ("2^{10}", "2^{11}"), ("10^{-2}", "0.001"), ("1024", "1023"), ("2^{100000}", "2^{100001}"),
        ("2^{100000}", "2^{100000}+1"), (r"\frac{1}{1500!}", r"\frac{1}{1501!}"),
        (r"\frac{\sqrt2}{1500!}", r"\frac{\sqrt2}{1501!}"), (r"\pi", r"\pi+\frac{1}{1500!}"),
        ("9^{9^{9^9}}", "9^{9^{9^9}}+1"), ("10^{-100}", "0"), ("1e-30", "2e-30"),
        (r"e^{\pi\sqrt{163}}", "262537412640768744"),
    ],
    "functions": [
        (r"\sin x", r"\cos x"), (r"\ln 2", r"\log 2"), (r"\log_2 8", "4"), ("5!", "5"), (r"\sin(x+1)", r"\sin x + 1"),
        ("|x|", "x"),
    ],
    "polynomials": [
        ("(x+1)^2", "x^2+1"), ("x^2", "x^3"), ("2x", "2y"), ("x^2+2x+1", "x^2+2x-1"), ("ab", "a+b"), ("x^2", "2x"),
        ("C", "c"),
    ],
    "equations": [
        ("x=5", "y=5"), ("7=11a+c", "11a+c"), ("5", "2x=5"), ("y=2x+1", "y=2x-1"), ("x^2+y^2=4", "x^2+y^2=2"),
        ("x^2+y^2=4", "4"), ("5", "x = 5 + 1"),
    ],
    "lists": [
        ("2,7", "2"), ("2", "2,7"), ("2,7", "2,8"), ("2,7", "2,7,9"), ("2,2,7", "2,7,7"), ("x=1, y=2", "(2,1)"),
        ("x=1,y=2", "x=2,y=1"), (r"\{1,2\}", "(1,2)"),
    ],
    "tuples": [
        ("(1,2)", "(2,1)"), ("(1,2)", "(1,3)"), ("(1,2)", "(1,2,3)"), ("(1,2)", "[1,2]"), ("(1,23)", "(12,3)"),
        ("(1,234)", "1234"),
    ],
    "sets": [
        (r"\{1,2\}", r"\{1,3\}"), (r"\{1,2\}", r"\{1\}"), (r"\emptyset", "0"), (r"\{0\}", r"\emptyset"),
    ],
    "intervals": [
        ("x+y>2", r"x+y\ge 2"), ("x+y=2", "x+y<2"),
        ("[0,1)", "[0,1]"), ("(0,1)", "[0,1)"), (r"(-\infty,3]", r"(-\infty,3)"), ("x>2", r"x\ge2"), ("x>2", "x<2"),
        ("x>2", "y>2"), (r"(1,\infty)", r"(-\infty,1)"), (r"(-\infty,0)\cup(1,\infty)", r"(-\infty,0)"),
        ("2<x<5", r"2\le x<5"), ("2x>4", "x<2"), ("x>2", "2"), ("(1,5)", "|x-3|>2"), (r"-1\le x\le 1", "|x|<1"),
    ],
    "matrices": [
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&3\\2&4\end{pmatrix}"),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1&2\end{pmatrix}"),
    ],
    "words": [
        ("Yes", "No"), ("no", "on"), ("east", "west"), ("no solution", "0"), ("prime", "not prime"),
        ("yes", "yes or no"), ("Monday", "Monday, Tuesday"),
    ],
    "choices": [
        ("B", "C"), ("B", "(B) or (C)"), ("B", "A, B"), ("B", "(C) B"), ("B", "b+1"), ("B", "AB"),
    ],
    "bases": [
        ("1011_2", "1011_3"), ("1011_2", "11"), ("1011_2", "1010_2"),
    ],
    "ratios": [
        ("3:4", "4:3"), ("12:00", "1:00"), ("3:30", "1:10"), ("0:0", "1:2"), ("1:2:3", "1:2:4"), ("3:4", "3:5"),
    ],
    "complex": [
        ("3+4i", "3-4i"), ("3+4i", "4+3i"), ("i", "-i"), ("i", "1"),
    ],
    "infinity": [
        (r"\infty", r"-\infty"), (r"\infty", "1"), (r"\infty", "10^{100}"),
    ],
    "formulas": [
        (r"\int_0^1 x\,dx", r"\int_0^2 x\,dx"), (r"\sum_{k=1}^{3} k", r"\sum_{k=1}^{4} k"),
    ],
}  # fmt: skip


def rows(table: dict[str, list[tuple[str, str]]]) -> list[object]:
    pairs = [(kind, *pair) for kind in table for pair in table[kind]]
    return [pytest.param(gold, answer, id=f"{kind}: {gold} | {answer}") for kind, gold, answer in pairs]


@pytest.mark.parametrize(("gold", "answer"), rows(RIGHT))
def test_right(gold: str, answer: str) -> None:
    assert is_right(gold, answer)


@pytest.mark.parametrize(("gold", "answer"), rows(WRONG))
def test_wrong(gold: str, answer: str) -> None:
    assert not is_right(gold, answer)
