"""Names that each format can carry: those of features, of models and of feature stores."""

import keyword
from collections.abc import Callable, Iterable
from typing import NamedTuple

from structsvm.common.checks import BadInput
from structsvm.export.ranking_expressions import is_rank_feature


class Rule(NamedTuple):
    """Whether a format carries a name, and a description of the names that it carries."""

    carries: Callable[[str], bool]
    expected: str


def _is_text(name: str) -> bool:
    """Return whether a name is not blank and can be encoded: JSON escapes all other characters."""
    return bool(name.strip()) and not any("\ud800" <= letter <= "\udfff" for letter in name)


def _is_line(name: str) -> bool:
    return _is_text(name) and name.splitlines() == [name] and "\0" not in name


def _is_identifier(name: str) -> bool:
    return name.isascii() and name.isidentifier()


def _is_word_of_lightgbm(name: str) -> bool:
    """Return whether LightGBM reads a name back: its file separates names by spaces and drops "=" at the ends of their
    list, and its JSON is not escaped."""
    return _is_line(name) and not set(name) & set(' \t"[]{},:') and name == name.strip("=")


_TEXT = Rule(_is_text, "a name that is not empty, of valid characters,")
_LINE = Rule(_is_line, "names on one line")
_VESPA = Rule(is_rank_feature, "rank features as names, such as 'bm25(title)' or 'attribute(price)',")
_VARIABLE = Rule(
    lambda name: _is_identifier(name) and not keyword.iskeyword(name),
    "variables of Python as names, such as 'bm25',",
)

_FIELD = Rule(
    lambda name: _is_line(name) and not set(name) & set("^*"), "names of fields without '^' and '*'"
)

FEATURES = {
    "multi_match": _FIELD,
    "vespa": _VESPA,
    "xgboost": _VESPA,
    "lightgbm": Rule(
        _is_word_of_lightgbm,
        "names of features without spaces, quotes, brackets, commas and colons, and without '=' at an end,",
    ),
    "vespa-rrf": _VESPA,
    "weaviate": _LINE,
    "sql": _LINE,
    "langchain": _VARIABLE,
    "llamaindex": _VARIABLE,
}
"""Rules of the formats that cannot carry each text as the name of a feature or of a clause."""

MODELS = {
    "vespa": Rule(_is_identifier, "a name of letters, digits and underscores that begins with a letter,")
}
"""Rules of the formats that cannot carry each text as the name of a model."""


def check_feature_names(to: str, names: Iterable[str], argument: str = "feature_names") -> None:
    """Raise unless the format carries each name of a feature or a clause."""
    rule = FEATURES.get(to, _TEXT)
    for name in names:
        if not rule.carries(name):
            problem = f"expected {rule.expected} for {to}, got {name!r}"
            if argument != "feature_names":
                raise BadInput(argument, problem, "rename it")
            remedy = "rename it in the data, or give its name in the engine with {feature_names}"
            engine_name = "attribute(price)" if rule is _VESPA else "price"
            raise BadInput(argument, problem, remedy, code=f"feature_names={{{name!r}: {engine_name!r}}}")


def check_store_name(store: str) -> None:
    """Raise unless Solr can store features under a name."""
    if not _TEXT.carries(store):
        raise BadInput("store", f"expected {_TEXT.expected} for solr", "give another {store}", value=store)


def check_model_name(to: str, name: str) -> None:
    """Raise unless the format carries the name of a model."""
    rule = MODELS.get(to, _TEXT)
    if not rule.carries(name):
        raise BadInput("name", f"expected {rule.expected} for {to}", "give another {name}", value=name)
