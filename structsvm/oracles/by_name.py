"""Look up losses by name, such as ``"ndcg@10"``, among the labels of the oracles in this folder.

To add an oracle, add it to ``__init__.py`` with the names that select it; this module needs no change.
"""

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
    "lambdamart": "TreeRanker grows trees by its gradients; structsvm compare runs LightGBM as 'lightgbm'",
    "lambdarank": "the loss for NDCG is 'ndcg@10'; LambdaRank is a separate estimator",
    "ranknet": "see LambdaRank(utility='ranknet')",
}
"""Names of methods that are not losses, with advice for the error message."""

LOSSES = tuple(labels(_ROOM))
"""Names that :func:`get_oracle` accepts; ``k`` stands for a cut-off."""


def get_oracle(loss: str | Oracle, *, relevance: float = 1.0) -> Oracle:
    """Return the oracle with a name such as ``"map"`` or ``"ndcg@10"``; an oracle object is returned unchanged.

    An oracle of this package is a dataclass with its name in the attribute ``label``. Its attribute ``cutoff``, which
    is "never" (default), "optional" or "required", determines whether the name takes a suffix ``@k``, whose value is
    passed as the field ``k``. ``relevance`` is passed to oracles that have a field of this name.

    Parameters
    ----------
    loss : str or Oracle
        One of :data:`LOSSES`, or the spelling of other programs, such as ``"nDCG@10"``, ``"MAP"`` or ``"RR"``.
    relevance : float, default=1.0
        Lowest label of a relevant document, for binary losses, such as map.

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
