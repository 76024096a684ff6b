"""``model_card``: when and on what a model was trained, and how well it is expected to rank."""

import warnings
from typing import Any

from structsvm.common.checks import BadInput, counted


def model_card(model: Any) -> dict[str, str]:
    """Return the model card of a fitted model of this package, as texts by topic.

    Parameters
    ----------
    model : estimator
        Fitted model; its attribute ``training_data_`` has the numbers, and the ranges of the features.

    Returns
    -------
    dict of str to str
        ``model`` (with its parameters and the relative duality gap), ``trained`` (date and versions), ``data`` (sizes
        and digest), ``measure`` (of ``score``) and ``estimate`` (of the measure on new queries, or the reason why there
        is none).

    Examples
    --------
    >>> from structsvm import SVMMap
    >>> card = model_card(SVMMap(C=0.1).fit([[1.0], [0.0]], [1, 0], qid=0))
    >>> card["measure"], card["estimate"]
    ('map', 'none; cross-validated models, such as StructuralRankerCV, have one')
    """
    kept = getattr(model, "training_data_", None) or {}
    gap = getattr(getattr(model, "fit_", getattr(model, "certificate", None)), "gap", None)
    measure = getattr(model, "scoring_", None) or getattr(model, "_measure", lambda: "none")()
    if not isinstance(measure, str):  # a method of an oracle
        measure = str(getattr(getattr(measure, "__self__", measure), "label", measure))
    card = {"model": " ".join(repr(model).split()) + ("" if gap is None else f", relative gap {gap:.1e}")}
    if kept:
        card["trained"] = ", ".join([kept["date"], *(f"{name} {v}" for name, v in kept["versions"].items())])
        sizes = {"query": "n_queries", "row": "n_rows"}
        about = [counted(**{noun: kept[name] for noun, name in sizes.items() if name in kept})]
        about += ["labels {:g} to {:g}".format(*kept["labels"])] if "labels" in kept else []
        card["data"] = ", ".join(about + ([f"digest {kept['digest']}"] if "digest" in kept else []))
    else:
        card["trained"] = "unknown, as the version that wrote the file did not record it"
    return card | {"measure": measure, "estimate": kept.get("estimate") or _estimate(model)}


def _estimate(model: Any) -> str:
    if not hasattr(model, "estimate"):
        return "none; cross-validated models, such as StructuralRankerCV, have one"
    try:
        with warnings.catch_warnings(action="ignore"):
            return repr(model.estimate())
    except BadInput as error:
        return f"none: {error}"
