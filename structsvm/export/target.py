"""What an export needs beside the model: names, the version of the engine, and what becomes of unset features."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput
from structsvm.common.rows import warn_user

Unmatched = Literal["auto", "zero", "missing"]

TINY, HUGE = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
_SOLR_NULLS, _OPENSEARCH_NAN, _OPENSEARCH_BRANCHES, _ELASTIC, _ELASTIC_FIELDS = (
    (9, 2), (3, 2), (3, 8), (8, 12), (8, 15)
)  # fmt: skip
_VERSIONED = ("solr", "opensearch", "elastic")
_COARSE = 1e-5
"""Distance of float32 values beside the width of a feature from which ranks may differ."""
_MOST_BYTES = 900_000
"""Of a model for Solr: all models of a collection share a node of ZooKeeper, which holds 1 MB by default."""


class Target(NamedTuple):
    """The arguments of an export that its format may need."""

    to: str
    name: str
    missing: frozenset[str] = frozenset()
    """Features whose unset values go along the branch of missing values; those of others go where 0 goes."""
    version: tuple[int, ...] | None = None
    store: str | None = None
    queries: Mapping[str, Any] | None = None

    @property
    def nulls(self) -> bool:
        """Whether a file for Solr has branches for unset values."""
        return bool(self.missing) and (self.version is None or self.version >= _SOLR_NULLS)

    @property
    def lists_fields(self) -> bool:
        """Whether a model for Elastic names its input, as it had to before 8.15."""
        return self.version is not None and self.version < _ELASTIC_FIELDS

    def unset(self, X: NDArray[Any], names: Sequence[str]) -> NDArray[Any]:
        """Return rows as the trees of this version of the engine see them: NaN where a value is not set."""
        as_zero = {
            "opensearch": self.version is not None and self.version < _OPENSEARCH_NAN,
            "solr": not self.nulls,
        }
        return np.nan_to_num(X, nan=0.0, posinf=np.inf, neginf=-np.inf) if as_zero.get(self.to) else X

    @property
    def follows_branches(self) -> bool:
        """Whether the plugin sends an unset value along ``missing``; else it goes to ``no``."""
        return self.to != "opensearch" or self.version is None or self.version >= _OPENSEARCH_BRANCHES


def parse_version(to: str, text: str | None) -> tuple[int, ...] | None:
    """Return the numbers of the version of an engine."""
    if text is None:
        return None
    if to not in _VERSIONED:
        raise BadInput(
            "engine_version", f"expected none for {to}, whose file is the same for all", value=text
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
    """Return the features whose unset values are missing values; ``seen`` had some in training."""
    given = unmatched if isinstance(unmatched, Mapping) else dict.fromkeys(names, unmatched)
    for name, how in given.items():
        if how not in ("auto", "zero", "missing"):
            raise BadInput("unmatched", f"expected 'auto', 'zero' or 'missing', got {how!r} for {name!r}")
        if name not in names:
            raise BadInput("unmatched", f"expected names of features, such as {names[0]!r}, got {name!r}")
    return frozenset(
        name for j, name in enumerate(names)
        if given.get(name, "auto") == "missing" or (given.get(name, "auto") == "auto" and j in seen)
    )  # fmt: skip


def warn_of_unset(target: Target) -> None:
    """Warn of versions of the engine that do not follow the branches of a tree for unset values."""
    to, version, names = target.to, target.version, ", ".join(sorted(target.missing))
    count_as_0 = "fill the values in training by a number that the engine gives, too"
    if to == "opensearch":
        if version is None or _OPENSEARCH_NAN <= version < _OPENSEARCH_BRANCHES:
            warn_user(
                "OpenSearch 3.2 to 3.7 sends a document that a feature does not match to the wrong branch of a tree: "
                "let each feature match every document there, such as a bool query with match_all of boost 0 beside "
                "it" + ("; for other versions, give engine_version" if version is None else "")
            )
        if names and (version is None or version < _OPENSEARCH_NAN):
            warn_user(
                f"{names}: values were missing in training, and OpenSearch before 3.2 counts those as 0; {count_as_0}"
            )
    elif to == "elasticsearch" and names:
        warn_user(
            f"{names}: values were missing in training, and releases of the plugin before 2024 count those as 0; "
            f"{count_as_0}"
        )
    elif to == "solr" and names:
        if target.nulls:
            warn_user(
                f'{names}: values were missing in training; give these features "defaultValue": "NaN". The file needs '
                "Solr 9.2" + ("; for older versions give engine_version" if version is None else "")
            )
        else:
            warn_user(
                f"{names}: values were missing in training, and Solr before 9.2 counts those as 0; {count_as_0}"
            )


def warn_of_size(content: bytes, target: Target) -> None:
    """Warn of a model that the store of SolrCloud may lose."""
    if len(content) > _MOST_BYTES:
        warn_user(
            f"{target.name}: {len(content) / 1e6:.1f} MB, and SolrCloud holds all models of a collection in 1 MB by "
            "default, and drops more silently; serve the file by a DefaultWrapperModel, or grow fewer trees"
        )


def check_figures(
    names: Sequence[str], weights: Any, shift: Any, scale: Any, to: str, *, range_: bool
) -> None:
    """Refuse weights and figures of a linear model that float32 cannot hold, and warn of those that it rounds much.

    ``range_``: the engine has minimum and maximum, which have to differ; else mean and deviation.
    """
    rows = zip(names, weights.tolist(), shift.tolist(), scale.tolist(), strict=True)
    coarse = []
    for name, weight, low, width in (row for row in rows if row[1]):
        with np.errstate(over="ignore"):
            low32, high32 = np.float32(low), np.float32(low + width)
        if not TINY <= abs(weight) <= HUGE:
            problem, remedy = f"weights that a float32 holds, got {weight:.3g} of", "multiply the feature"
        elif not TINY <= width <= HUGE or not np.isfinite(high32) or (range_ and high32 <= low32):
            said = f"{low!r} to {low + width!r}" if range_ else f"mean {low!r} and deviation {width!r}"
            problem, remedy = (
                f"values that float32 can tell apart, got {said} of",
                "subtract from it, or multiply it",
            )
        else:
            if np.spacing(max(abs(low32), abs(high32))) > _COARSE * width:
                coarse.append(name)
            continue
        raise BadInput(
            "to", f"expected {problem} {name!r}", f"{remedy} by a constant before training", value=to
        )
    if coarse:
        warn_user(
            f"{', '.join(coarse)}: values are large beside their differences, which float32 rounds, so that ranks may "
            "differ from those of predict; subtract a constant from the feature before training"
        )


def power_without_slack(below: NDArray[np.float32], slack: np.float32) -> int:
    """Return the exponent of 2 by which a feature is multiplied so that Solr's slack vanishes beside its thresholds.

    From 64 on the slack is less than half the distance of float32 values. A power of two keeps all digits.
    """
    size = np.abs(below[np.abs(below) < 3e38].astype(np.float64))
    size = size[size > 1e-30]
    if not size.size or size.min() >= 64 or all(below_slack(t, slack) + slack == t for t in np.unique(below)):
        return 0
    return max(0, min(math.ceil(math.log2(64 / size.min())), math.floor(math.log2(1e38 / size.max()))))


def below_slack(below: np.float32, slack: np.float32) -> np.float32:
    """Return the threshold that is ``below`` with Solr's slack, or as little above it as a float32 can be."""
    threshold = below - slack
    while threshold + slack > below:
        threshold = np.nextafter(threshold, np.float32(-np.inf))
    while threshold + slack < below:
        threshold = np.nextafter(threshold, np.float32(np.inf))
    if below < 0 <= threshold + slack:  # LightGBM's -1e-35, say, between the negative values and 0
        threshold = np.nextafter(threshold, np.float32(-np.inf))
    return threshold
