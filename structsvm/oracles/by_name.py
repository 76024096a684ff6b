"""Losses by name: the labels of the oracles in this folder, with their cut-offs.

To add an oracle, add its lines to ``__init__.py``, with the names that select it; nothing changes here.
"""

from __future__ import annotations

import dataclasses
import re
from importlib import import_module
from typing import cast

from structsvm.common.checks import BadInput
from structsvm.common.lazy import labels
from structsvm.common.names import did_you_mean, plain_name
from structsvm.protocols import Oracle

_ROOM = "structsvm.oracles"


_ELSEWHERE = {
    "lambdamart": "TreeRanker grows trees by its gradients; structsvm compare has LightGBM's as 'lightgbm'",
    "lambdarank": "the loss for NDCG is 'ndcg@10'; LambdaRank is a separate estimator",
    "ranknet": "see LambdaRank(utility='ranknet')",
}
"""Names of other methods, with advice on where to find them."""

LOSSES = tuple(labels(_ROOM))
"""Names that :func:`get_oracle` takes; ``k`` is a cut-off."""


def get_oracle(loss: str | Oracle, *, relevance: float = 1.0) -> Oracle:
    """Return the oracle of a name such as ``"map"`` or ``"ndcg@10"``; an oracle object is returned unchanged.

    An oracle of this package is a dataclass whose name is its attribute ``label``. Its ``cutoff``, "never" (default),
    "optional" or "required", tells whether the name takes ``@k``, which becomes the field ``k``; ``relevance`` is
    passed to oracles that have such a field.

    Parameters
    ----------
    loss : str or Oracle
        One of :data:`LOSSES`, or its spelling in other programs: ``"nDCG@10"``, ``"MAP"``, ``"RR"``.
    relevance : float, default=1.0
        Label from which a document is relevant, for the binary losses (map, roc, mrr, precision).

    Returns
    -------
    Oracle

    Examples
    --------
    >>> get_oracle("ndcg@5").k
    5
    """
    if isinstance(loss, type):
        raise TypeError(
            f"loss: expected an oracle object, got the class {loss.__name__}; pass {loss.__name__}()"
        )
    if not isinstance(loss, str):
        if not callable(getattr(loss, "bind", None)):
            raise TypeError(
                f"loss: expected a name ({', '.join(LOSSES)}) or an oracle with a method bind(y, offsets), "
                f"got {loss!r}"
            )
        return loss
    match = re.fullmatch(r"([a-z][a-z0-9_-]*)(?:@([0-9]+))?", plain_name(loss))
    known = labels(_ROOM)
    member = known.get(match[1], known.get(f"{match[1]}@k")) if match else None
    if match is None or member is None:
        remedy = _ELSEWHERE.get(loss.lower(), did_you_mean(loss, LOSSES))
        raise BadInput(
            "loss", f"expected one of {', '.join(LOSSES)}, or an oracle object", remedy, value=loss
        )
    oracle = getattr(import_module(_ROOM), member)
    cutoff = getattr(oracle, "cutoff", "never")
    options: dict[str, object] = {}
    if match[2] is not None:
        if cutoff == "never":
            raise BadInput("loss", f"{match[1]!r} takes no cut-off", f"use {{loss={match[1]!r}}}", value=loss)
        if int(match[2]) < 1:
            raise BadInput("loss", "expected a cut-off of at least 1", value=loss)
        options["k"] = int(match[2])
    elif cutoff == "required":
        raise BadInput("loss", f"expected a cut-off, for example '{match[1]}@10'", value=loss)
    elif cutoff == "optional":
        options["k"] = None
    if "relevance" in {field.name for field in dataclasses.fields(oracle)}:
        options["relevance"] = float(relevance)
    return cast(Oracle, oracle(**options))
