"""Arguments of an export besides the model: names, engine version, and the meaning of unset features."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput
from structsvm.common.row_checks import warn_user

Unmatched = Literal["auto", "zero", "missing"]

TINY, HUGE = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
SOLR_SLACK = np.float32(1e-6)
"""Number that Solr adds to each threshold of a tree, in float32."""

_SOLR_NULLS = (9, 2)
"""First version of Solr with missing values. The messages below name the versions, too."""
_OPENSEARCH_NAN, _OPENSEARCH_BRANCHES = (3, 2), (3, 8)
"""First versions of OpenSearch with NaN, and with branches for missing values."""
_ELASTIC, _ELASTIC_FIELDS = (8, 12), (8, 15)
"""First versions of Elasticsearch with learning to rank, and with models that do not list their fields."""
_VERSIONED = ("solr", "opensearch", "elastic")


class Target(NamedTuple):
    """The arguments of an export that its format may need."""

    to: str
    name: str
    missing: frozenset[str] = frozenset()
    """Features whose unset values are missing values; the unset values of all others are 0."""
    version: tuple[int, ...] | None = None
    store: str | None = None
    queries: Mapping[str, Any] | None = None

    @property
    def nulls(self) -> bool:
        """Return whether a file for Solr has branches for unset values."""
        return bool(self.missing) and (self.version is None or self.version >= _SOLR_NULLS)

    @property
    def lists_fields(self) -> bool:
        """Return whether a model for Elastic lists its input fields, as was required before 8.15."""
        return self.version is not None and self.version < _ELASTIC_FIELDS

    def unset(self, X: NDArray[Any], names: Sequence[str]) -> NDArray[Any]:
        """Return rows as the trees of this version of the engine see them, with NaN for unset values."""
        older = self.to == "opensearch" and self.version is not None and self.version < _OPENSEARCH_NAN
        as_zero = older or (self.to == "solr" and not self.nulls)
        return np.nan_to_num(X, nan=0.0, posinf=np.inf, neginf=-np.inf) if as_zero else X

    @property
    def follows_branches(self) -> bool:
        """Return whether the plugin sends an unset value along ``missing``; otherwise it goes to ``no``."""
        return self.to != "opensearch" or self.version is None or self.version >= _OPENSEARCH_BRANCHES


def parse_version(to: str, text: str | None) -> tuple[int, ...] | None:
    """Return the components of an engine's version number."""
    if text is None:
        return None
    if to not in _VERSIONED:
        raise BadInput(
            "engine_version", f"expected none for {to}, whose file is the same for all versions", value=text
        )
    if not re.fullmatch(r"\d+(\.\d+)*", text):
        raise BadInput("engine_version", "expected numbers with dots, such as 3.8", value=text)
    numbers = tuple(map(int, text.split(".")))
    if to == "elastic" and numbers < _ELASTIC:
        raise BadInput("engine_version", "expected 8.12 or later, which has learning to rank", value=text)
    return numbers


def missing_names(
    names: Sequence[str], seen: Sequence[int], unmatched: Unmatched | Mapping[str, str]
) -> frozenset[str]:
    """Return the features whose unset values are missing values; ``seen`` are the features with missing values in
    training."""
    given = unmatched if isinstance(unmatched, Mapping) else dict.fromkeys(names, unmatched)
    for name, how in given.items():
        if how not in ("auto", "zero", "missing"):
            raise BadInput("unmatched", f"expected 'auto', 'zero' or 'missing', got {how!r} for {name!r}")
        if name not in names:
            raise BadInput("unmatched", f"expected names of features, such as {names[0]!r}, got {name!r}")
    # "auto" depends on training; an entry of ``unmatched`` overrides it
    auto = {name: "missing" if j in seen else "zero" for j, name in enumerate(names)}
    means = auto | {name: how for name, how in given.items() if how != "auto"}
    return frozenset(name for name, how in means.items() if how == "missing")


def warn_of_unset(target: Target) -> None:
    """Warn about versions of the engine that treat unset values differently from training."""
    to, version, names = target.to, target.version, ", ".join(sorted(target.missing))
    older = ""  # versions that count an unset value as 0
    if to == "opensearch":
        if version is None or _OPENSEARCH_NAN <= version < _OPENSEARCH_BRANCHES:
            warn_user(
                "OpenSearch 3.2 to 3.7 sends a document that a feature does not match to the wrong branch of a tree: "
                "for these versions let each feature match every document, for example by a bool query with match_all "
                "of boost 0" + ("; for other versions, give engine_version" if version is None else "")
            )
        if version is None or version < _OPENSEARCH_NAN:
            older = "OpenSearch before 3.2 counts"
    elif to == "elasticsearch":
        older = "releases of the plugin before 2024 count"
    elif to == "solr" and target.nulls:
        warn_user(
            f'{names}: values were missing in training; give these features "defaultValue": "NaN". The file needs '
            "Solr 9.2" + ("; for older versions give engine_version" if version is None else "")
        )
    elif to == "solr":
        older = "Solr before 9.2 counts"
    if names and older:
        warn_user(
            f"{names}: values were missing in training, and {older} these as 0; fill them in training with a number "
            "that the engine also returns"
        )


def power_without_slack(below: NDArray[np.float32]) -> int:
    """Return the exponent of the power of 2 that, as a factor of a feature, makes Solr's slack negligible.

    For numbers of at least 64 the slack is less than half the distance between float32 numbers. A power of two keeps
    all digits.
    """
    size = np.abs(below[np.abs(below) < 3e38].astype(np.float64))
    size = size[size > 1e-30]
    if not size.size or size.min() >= 64 or all(below_slack(t) + SOLR_SLACK == t for t in np.unique(below)):
        return 0
    return max(0, min(math.ceil(math.log2(64 / size.min())), math.floor(math.log2(1e38 / size.max()))))


def below_slack(below: np.float32) -> np.float32:
    """Return the threshold that, with Solr's slack, is ``below``, or the closest possible value above it in float32."""
    threshold = below - SOLR_SLACK
    # the sum is rounded: step down until it is at most ``below``, then up until it is at least ``below``
    while threshold + SOLR_SLACK > below:
        threshold = np.nextafter(threshold, np.float32(-np.inf))
    while threshold + SOLR_SLACK < below:
        threshold = np.nextafter(threshold, np.float32(np.inf))
    if below < 0 <= threshold + SOLR_SLACK:  # such as LightGBM's -1e-35, between negative values and 0
        threshold = np.nextafter(threshold, np.float32(-np.inf))
    return threshold
