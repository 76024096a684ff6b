"""Ranking losses with their joint features: what is optimised, found by name or given as an object."""

from __future__ import annotations

import re
from importlib import import_module
from typing import cast

from structsvm.checks import BadInput
from structsvm.protocols import Oracle

__all__ = ["LOSSES", "get_oracle"]

# name -> module, class, keyword of the cut-off (None: takes none)
_REGISTRY: dict[str, tuple[str, str, str | None]] = {
    "map": ("average_precision", "AveragePrecision", None),
    "roc": ("roc_area", "RocArea", None),
    "pairs": ("pairs", "Pairs", None),
    "ndcg": ("positions", "NDCG", "k"),
    "mrr": ("positions", "ReciprocalRank", "k"),
    "precision": ("positions", "PrecisionAt", "k"),
}

LOSSES = ("map", "roc", "pairs", "ndcg", "ndcg@k", "mrr", "mrr@k", "precision@k")
"""Names :func:`get_oracle` understands; ``k`` stands for a cut-off."""


def get_oracle(loss: str | Oracle, *, relevance: float = 1.0) -> Oracle:
    """The oracle of a name such as ``"map"`` or ``"ndcg@10"``; an oracle object is returned as it is.

    Parameters
    ----------
    loss : str or Oracle
        One of :data:`LOSSES`.
    relevance : float, default=1.0
        Label from which a document is relevant, for the binary losses (map, roc, mrr, precision).

    Returns
    -------
    Oracle

    Raises
    ------
    ValueError
        For a name that is not known, or a cut-off that is missing, not wanted or not positive.
    TypeError
        For an object without ``bind``.

    Examples
    --------
    >>> get_oracle("ndcg@5").k
    5
    """
    if not isinstance(loss, str):
        if not callable(getattr(loss, "bind", None)):
            raise TypeError(
                f"loss: expected a name ({', '.join(LOSSES)}) or an oracle with a method bind(y, offsets), "
                f"got {loss!r}"
            )
        return loss
    match = re.fullmatch(r"([a-z]+)(?:@([0-9]+))?", loss)
    entry = _REGISTRY.get(match[1]) if match else None
    if match is None or entry is None:
        raise BadInput("loss", f"expected one of {', '.join(LOSSES)}, or an oracle object", value=loss)
    module, name, keyword = entry
    options: dict[str, object] = {}
    if match[2] is not None:
        if keyword is None:
            raise BadInput("loss", f"{match[1]!r} takes no cut-off", f"use {{loss={match[1]!r}}}", value=loss)
        if int(match[2]) < 1:
            raise BadInput("loss", "expected a cut-off of at least 1", value=loss)
        options[keyword] = int(match[2])
    elif match[1] == "precision":
        raise BadInput("loss", "expected a cut-off, for example 'precision@10'", value=loss)
    elif keyword is not None:
        options[keyword] = None
    if match[1] in ("map", "roc", "mrr", "precision"):
        options["relevance"] = float(relevance)
    return cast(Oracle, getattr(import_module(f"structsvm.oracles.{module}"), name)(**options))
