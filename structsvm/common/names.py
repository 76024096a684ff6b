"""Names that users write: spellings of other programs, and suggestions for misspelled names."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

QID = "qid"
"""Default name of the column of query ids in frames and tables."""

_SYNONYMS = {
    "p": "precision",
    "r": "recall",
    "ap": "map",
    "rr": "mrr",
    "recip_rank": "mrr",
    "hit_rate": "success",
    "hitrate": "success",
    "iprec_at_recall": "iprec",
    "setp": "set_precision",
    "setr": "set_recall",
    "setf": "set_f",
    "set_p": "set_precision",
    "set_r": "set_recall",
    "auc": "roc",
    "roc_auc": "roc",
}
"""Names of measures in ir_measures, trec_eval and scikit-learn, in lower case, with their names in this package."""

_WITH_CUTOFF = re.compile(r"(ndcg_cut|map_cut|p|recall|success|iprec_at_recall)[_.](\d+|[01]?\.\d+)")
"""trec_eval writes ``ndcg_cut_10`` in its output and reads ``ndcg_cut.10``."""

_WITH_PERSISTENCE = re.compile(r"(rbp)\(p=([0-9.]+)\)")
"""ir_measures writes ``RBP(p=0.8)``."""

_WITHOUT_AT = re.compile(r"([a-z]+)_?(\d+)")


def plain_name(name: str) -> str:
    """Return the name of a measure or loss in this package: ``"ndcg@10"`` for ``"nDCG@10"`` and ``"ndcg_cut_10"``.

    Examples
    --------
    >>> plain_name("RR@3"), plain_name("P_5")
    ('mrr@3', 'precision@5')
    """
    lower = name.strip().lower()
    if match := _WITH_CUTOFF.fullmatch(lower) or _WITH_PERSISTENCE.fullmatch(lower):
        lower = f"{match[1].removesuffix('_cut')}@{match[2]}"
    base, at, depth = lower.partition("@")
    return f"{_SYNONYMS.get(base, base)}{at}{depth}"


def feature_names(names: Iterable[object] | None, n_features: int) -> list[str]:
    """Return the names of features in output; without ``names``, ``feature 1, ...``, because LETOR files count from
    1."""
    return [f"feature {j + 1}" for j in range(n_features)] if names is None else [str(name) for name in names]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a remedy that suggests the most similar known name, with the given cut-off; empty if none is similar.

    Examples
    --------
    >>> did_you_mean("ndgc@10", ["map", "ndcg@k"])
    "did you mean 'ndcg@10'?"
    >>> did_you_mean("ndcg@", ["map", "ndcg@k"]), did_you_mean("map@5", ["map", "ndcg@k"])
    ("did you mean 'ndcg@10'?", "did you mean 'map'?")
    >>> did_you_mean("ndcg@k", ["map", "ndcg@k"])
    "write a number instead of k, as in 'ndcg@10'"
    """
    if "," in name:
        return "give one name at a time"
    # compare the names without cut-offs, and put the given cut-off back
    base, at, depth = plain_name(name).partition("@")
    known = set(known)
    bases = {one.partition("@")[0] for one in known}
    if (cut := _WITHOUT_AT.fullmatch(base)) and f"{cut[1]}@k" in known:
        return f"did you mean {cut[1] + '@' + cut[2]!r}?"
    if depth and not depth.isdecimal():
        return f"write a number instead of {depth}, as in {base + '@10'!r}"
    near = [base] if base in bases else get_close_matches(base, bases, 1)
    if not near:
        return ""
    with_cutoff = f"{near[0]}@k" in known and (at or near[0] not in known)
    return f"did you mean {near[0] + (f'@{depth or 10}' if with_cutoff else '')!r}?"
