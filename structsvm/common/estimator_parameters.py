"""``parameters``: a decorator for estimators whose parameters are dataclass fields, each described once."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import wraps
from inspect import cleandoc, signature
from typing import Any, TypeVar, cast, dataclass_transform

_Class = TypeVar("_Class", bound=type)

_FOREIGN_NAMES = {
    "n_estimators": "n_trees",
    "num_trees": "n_trees",
    "num_iterations": "n_trees",
    "num_boost_round": "n_trees",
    "iterations": "n_trees",
    "num_leaves": "n_leaves",
    "max_leaf_nodes": "n_leaves",
    "max_leaves": "n_leaves",
    "eta": "learning_rate",
    "min_child_samples": "min_rows",
    "min_data_in_leaf": "min_rows",
    "min_samples_leaf": "min_rows",
    "reg_lambda": "l2_regularization",
    "lambda_l2": "l2_regularization",
    "l2_leaf_reg": "l2_regularization",
    "max_bin": "n_bins",
    "max_bins": "n_bins",
    "categorical_feature": "categorical_features",
    "cat_features": "categorical_features",
    "objective": "loss",
    "loss_function": "loss",
    "seed": "random_state",
    "num_threads": "n_jobs",
    "nthread": "n_jobs",
    "thread_count": "n_jobs",
    "max_iter": "max_passes",
    "metric": "scoring",
    "eval_metric": "scoring",
    "early_stopping_rounds": "n_iter_no_change",
    "callbacks": "callback",
}
"""Parameters of LightGBM, XGBoost, CatBoost and scikit-learn, with their names in this package."""

_HEADING = re.compile(r"^(\w[\w ]*)\n-+\n", re.MULTILINE)


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def parameters(cls: _Class) -> _Class:
    """Make the annotated members of a class, and of its bases, the parameters of its ``__init__``.

    A class fixes a parameter of a base by ``field(default=..., init=False)``. Descriptions of parameters and attributes
    that the docstring lacks are inherited from the bases.
    """
    described = cls.__doc__ is not None  # absent with python -OO
    estimator: Any = dataclass(eq=False, repr=False)(cls)
    estimator.__init__ = _hinting(estimator.__init__)
    if described:
        bases = [base.__doc__ for base in estimator.__mro__[1:] if base.__doc__]
        estimator.__doc__ = completed(estimator.__doc__, bases, signature(estimator).parameters)
    return cast(_Class, estimator)


def _hinting(init: Any) -> Any:
    """Return ``init`` with an error for unknown parameters that names the counterpart in this package."""
    known = signature(init).parameters

    @wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        for name in kwargs:
            if name not in known:
                raise TypeError(f"{type(self).__name__}: no parameter {name!r}{_hint(name, known)}")
        init(self, *args, **kwargs)

    return __init__


def name_here(name: str) -> str:
    """Return the counterpart in this package of a parameter of other packages."""
    return _FOREIGN_NAMES.get(name, name)


def _hint(name: str, known: Collection[str]) -> str:
    if (here := name_here(name)) in known:
        return f"; structsvm calls it {here!r}"
    if name in ("verbose", "eval_set"):
        return "; pass verbose to fit, and validation=(X, y, qid) if training monitors a measure"
    near = get_close_matches(name, known, 1)
    listed = ", ".join(each for each in known if each != "self")
    return f"; did you mean {near[0]!r}?" if near else f"; expected one of {listed}"


def completed(text: str, sources: Iterable[str], names: Iterable[str]) -> str:
    """Add missing descriptions of parameters (``names``), attributes and the result to a docstring, from
    ``sources``."""
    docs = [_sections(one) for one in (text, *sources)]

    def entries(title: str) -> dict[str, str]:
        # in the order of the docstrings; if several describe a name, the first one counts
        known: dict[str, str] = {}
        for doc in docs:
            known = {**known, **{k: v for k, v in _entries(doc.get(title, "")).items() if k not in known}}
        return known

    known = entries("Parameters")
    merged = {
        "": docs[0][""],
        "Parameters": "\n".join(dict.fromkeys(known[name] for name in names if name in known)),
        "Attributes": "\n".join(dict.fromkeys(entries("Attributes").values())),
        "Returns": next((doc["Returns"] for doc in docs if "Returns" in doc), ""),
    }
    others = {title: section for title, section in docs[0].items() if title not in merged}
    return "\n\n".join(
        section if not title else f"{title}\n{'-' * len(title)}\n{section}"
        for title, section in (merged | others).items()
        if section
    )


def _sections(text: str) -> dict[str, str]:
    """Return the sections of a numpydoc docstring by heading; the text before the first heading is under ``""``."""
    parts = _HEADING.split(cleandoc(text))
    return {title: text.strip("\n") for title, text in zip(["", *parts[1::2]], parts[::2], strict=True)}


def _entries(section: str) -> dict[str, str]:
    """Return the entry of each parameter: the line that begins with its name, and the indented lines below it."""
    entries = filter(None, re.split(r"^(?=\w)", section, flags=re.MULTILINE))
    return {
        name: entry.rstrip("\n") for entry in entries for name in re.split(" *:|\n", entry)[0].split(", ")
    }
