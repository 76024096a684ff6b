"""Vespa's ranking expressions: numbers, rank features, arithmetic and brackets, as Vespa's grammar defines them.

The source is ``RankingExpressionParser.jj`` of Vespa. Functions, conditions and tensors are refused, because exported
profiles do not contain any.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from structsvm.common.checks import BadInput

_SKIPPED = re.compile(r"(?:[ \n\r\t]|#[^\n\r]*)*")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+[lL]?|[0-9]+(?:[lL]|(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_WORD = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9_@$]*")
_STRING = re.compile(r'"[^"]*"|\'[^\']*\'')
_SIGN = re.compile(r"[-+*/(),.]")
_KINDS = (("number", _NUMBER), ("word", _WORD), ("string", _STRING), ("sign", _SIGN))

RESERVED = frozenset(
    re.findall(
        r"\w+",
        "if in map reduce join rename concat tensor range diag random argmax argmin merge expand avg count prod sum "
        "max min median cos sin tan cosh sinh tanh acos asin atan atan2 exp ldexp log log10 pow sqrt square cube ceil "
        "fabs floor fmod isNan relu sigmoid elu erf bit hamming map_subspaces filter_subspaces cell_cast cell_order "
        "top unpack_bits l1_normalize l2_normalize euclidean_distance cosine_similarity matmul softmax xw_plus_b true "
        "false",
    )
)
"""Words that some version of Vespa reads as a function or an operator."""

Combine = Callable[[Any, Any], Any]
_OPERATORS: dict[str, Combine] = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}


def is_rank_feature(name: str) -> bool:
    """Return whether a name is a rank feature in the form in which Vespa prints it, such as ``bm25(title)``.

    Names that begin with a digit are refused, although the grammar has some, because most of them are numbers.
    """
    try:
        parser = _Parser(name, str)
        return parser.feature() == name and parser.at == ("end", "") and not name[0].isdigit()
    except BadInput:
        return False


def evaluate(expression: str, feature: Callable[[str], Any]) -> Any:
    """Return the value of an expression; ``feature`` returns the value of a rank feature by its name.

    Raises
    ------
    BadInput
        If the text is not an expression of the supported part of the grammar.
    """
    parser = _Parser(expression, feature)
    value = parser.arithmetic()
    parser.expect("end")
    return value


class _Parser:
    """Recursive descent over the tokens of a text; ``at`` is the kind and the text of the next token."""

    def __init__(self, text: str, value_of: Callable[[str], Any]) -> None:
        self.text, self.value_of, self.end, self.at = text, value_of, 0, ("", "")
        self.advance()

    def advance(self) -> str:
        """Return the text of the next token, and go on to the one after it."""
        before = self.at[1]
        start = _SKIPPED.match(self.text, self.end).end()  # type: ignore[union-attr]
        found = [(kind, match) for kind, form in _KINDS if (match := form.match(self.text, start))]
        if found:
            # the longest token; of two kinds that are equally long, the first in the grammar
            kind, match = max(found, key=lambda one: one[1].end())
            self.at, self.end = (kind, match[0]), match.end()
        elif start < len(self.text):
            raise self.unexpected(self.text[start])
        else:
            self.at, self.end = ("end", ""), start
        return before

    def unexpected(self, got: str) -> BadInput:
        return BadInput(
            "expression", f"expected a ranking expression of Vespa, got {got!r} in {self.text!r:.80}"
        )

    def expect(self, kind: str, text: str = "") -> str:
        """Return the text of the next token, and go on; raise if it is of another kind, or not ``text``."""
        if self.at[0] != kind or (text and self.at[1] != text):
            raise self.unexpected(self.at[1] or "its end")
        return self.advance()

    def taken(self, sign: str) -> bool:
        """Return whether the next token is a sign, and go on if it is."""
        if self.at != ("sign", sign):
            return False
        self.advance()
        return True

    def arithmetic(self) -> Any:
        """Return the value of products that are added up."""
        total = self.product()
        while self.at[0] == "sign" and self.at[1] in "+-":
            total = _OPERATORS[self.advance()](total, self.product())
        return total

    def product(self) -> Any:
        total = self.value()
        while self.at[0] == "sign" and self.at[1] in "*/":
            total = _OPERATORS[self.advance()](total, self.value())
        return total

    def value(self) -> Any:
        """Return the value of a number, a rank feature or an expression in brackets, each with an optional minus."""
        if self.taken("-"):
            return np.negative(self.value())
        if self.at[0] == "number":
            number = self.expect("number")
            return float(int(number, 16)) if number[:2] in ("0x", "0X") else float(number.rstrip("lLfFdD"))
        if self.taken("("):
            inside = self.arithmetic()
            self.expect("sign", ")")
            return inside
        return self.value_of(self.feature())

    def feature(self) -> str:
        """Return a rank feature as Vespa prints it: without blanks."""
        name = self.expect("word")
        if name in RESERVED:
            raise self.unexpected(name)
        if self.taken("("):
            arguments = [self.argument()]
            while self.taken(","):
                arguments.append(self.argument())
            self.expect("sign", ")")
            name = f"{name}({','.join(arguments)})"
        while self.taken("."):
            name = f"{name}.{self.advance() if self.at[0] == 'number' else self.expect('word')}"
        return name

    def argument(self) -> str:
        """Return a number, a text or a rank feature within the brackets of a rank feature."""
        if self.taken("-"):
            return "-" + self.expect("number")
        return self.advance() if self.at[0] in ("number", "string") else self.feature()
