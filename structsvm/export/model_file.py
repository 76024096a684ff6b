"""Models in one ``.npz`` file: arrays and a JSON description, no pickle, so that loading never runs code."""

from __future__ import annotations

import dataclasses
import io
import json
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from structsvm._version import __version__
from structsvm.common.arrays import Archive, Damaged, read_json
from structsvm.common.files import replacing
from structsvm.common.lazy import homes
from structsvm.common.machine import memory_bytes
from structsvm.export.restored import check_fields, check_fitted
from structsvm.protocols import Progress

__all__ = ["load", "save"]

_FORMAT = "structsvm-model"
_FORMAT_VERSION = 1

_ROOMS = (
    "structsvm.clicks",
    "structsvm.estimators",
    "structsvm.features",
    "structsvm.oracles",
    "structsvm.trainers",
)
"""A model file may name classes that live in these rooms: those that they, or the package itself, export."""

_MOST_DESCRIPTION_BYTES = 1 << 26

_LEFT_OUT = ("callback", "growth_callback", "constraints", "penalty")
"""Parameters that are functions: a model file holds no code. They are None after loading."""


def save(model: Any, path: str | Path) -> None:
    """Write a fitted model of this package to ``path``.

    The file appears complete or not at all. Functions, which are a progress callback, ``constraints`` and ``penalty``,
    and requests for metadata routing (``set_fit_request``) are not saved; ``constraints_`` and ``penalty_`` still tell
    what the functions said.

    Parameters
    ----------
    model : estimator of this package
        Fitted.
    path : str or Path
        Any name but one of a compressed file (``.gz``, ``.bz2``, ``.xz``): models are compressed as they are.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If the model holds something that has no plain description, such as an oracle of the user's own.
    ValueError
        For a suffix of a compressed file.
    OSError
        If the file cannot be written; what stood there before is kept.

    Examples
    --------
    >>> import tempfile, structsvm
    >>> model = structsvm.SVMMap().fit([[1.0], [0.0]], [1, 0], qid=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, folder + "/model.npz")
    ...     load(folder + "/model.npz").coef_
    array([0.25])
    """
    path = Path(path)
    if path.suffix in (".gz", ".bz2", ".xz"):
        raise ValueError(f"{path}: models are compressed already, expected a name such as {path.stem!r}")
    if hasattr(model, "fit"):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(model)
    arrays: dict[str, np.ndarray] = {}
    description = {
        "format": _FORMAT,
        "format_version": _FORMAT_VERSION,
        "structsvm": __version__,
        "model": _encode(model, "model", arrays),
    }
    arrays["description"] = np.frombuffer(json.dumps(description).encode(), dtype=np.uint8)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    with replacing(path) as file:
        file.write(buffer.getvalue())


def load(path: str | Path) -> Any:
    """Read a model that :func:`save` (or ``model.save``) wrote.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    estimator
        Fitted, of the class that was saved.

    Raises
    ------
    ValueError
        If the file is not a model of this package, or of a newer format.
    OSError
        If it cannot be read.

    Examples
    --------
    >>> import tempfile, structsvm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     structsvm.SVMMap(C=10).fit([[1.0], [0.0]], [1, 0], qid=0).save(folder + "/model.npz")
    ...     load(folder + "/model.npz")
    SVMMap(C=10)
    """
    path = Path(path)
    try:
        with Archive(path) as archive:
            try:
                raw = archive.array("description", most_bytes=_MOST_DESCRIPTION_BYTES)
                description = read_json(raw.tobytes())
                if description["format"] != _FORMAT or type(description["format_version"]) is not int:
                    raise _not_ours(path)
                version, content = description["format_version"], description.get("model")
            except (KeyError, TypeError, AttributeError):
                raise _not_ours(path) from None
            if version > _FORMAT_VERSION:
                raise ValueError(
                    f"{path}: model format {version}, this version of structsvm ({__version__}) reads up to "
                    f"{_FORMAT_VERSION}; upgrade with: pip install -U structsvm-ranking"
                )
            try:
                if not isinstance(content, dict) or "class" not in content:
                    raise Damaged("no model")
                return _decode(content, _Arrays(archive))
            except (
                KeyError, TypeError, IndexError, AttributeError, ValueError, ArithmeticError, RecursionError,
            ) as error:  # fmt: skip
                what = " ".join((str(error) if isinstance(error, Damaged) else f"{error!r:.100}").split())
                raise ValueError(
                    f"{path}: expected a complete structsvm model, got a damaged one ({what}); train and save again"
                ) from error
    except Damaged:
        raise _not_ours(path) from None


class _Arrays:
    """The arrays of a model file that its description refers to; together they must fit into memory."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._left = memory_bytes()
        self._read: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        if not isinstance(name, str):
            raise Damaged(f"no array {name!r:.40}")
        if name not in self._read:
            self._read[name] = self._archive.array(name, most_bytes=self._left)
            self._left -= self._read[name].nbytes
        return self._read[name]


def _not_ours(path: Path) -> ValueError:
    return ValueError(
        f"{path}: expected a structsvm model (written by save), got another or a damaged file; train and save again"
    )


@cache
def _homes() -> dict[str, str]:
    """Return the module of each class that a model file may name; nothing outside the package is ever imported."""
    rooms = tuple(f"{room}." for room in _ROOMS)
    exported = [homes(room) for room in ("structsvm", *_ROOMS)]
    found = {name: home for table in exported for name, home in table.items() if home.startswith(rooms)}
    return found | {"Progress": Progress.__module__}


def _has_fields(cls: Any) -> bool:
    """Whether a class is a record or an estimator, which are made again from their fields."""
    if not isinstance(cls, type):
        return False
    return dataclasses.is_dataclass(cls) or hasattr(cls, "_fields") or hasattr(cls, "_get_param_names")


def _encode(value: Any, place: str, arrays: dict[str, np.ndarray]) -> Any:
    """A JSON-able description; arrays go to ``arrays`` under the place where they were met."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return {"float": float(value).hex()}
    if isinstance(value, np.ndarray):
        if value.dtype != object:
            arrays[place] = value
            return {"array": place}
        if all(isinstance(v, str) for v in value.flat):  # scikit-learn keeps names so
            arrays[place] = value.astype(str)
            return {"names": place}
    name = type(value).__name__
    if _homes().get(name) == type(value).__module__ and _has_fields(type(value)):
        if isinstance(value, tuple):  # a named tuple
            fields = value._asdict()  # type: ignore[attr-defined]
        elif dataclasses.is_dataclass(value):
            fields = {
                f.name: getattr(value, f.name)
                for f in dataclasses.fields(value)
                if f.metadata.get("saved", True)
            }
        else:
            fields = {k: v for k, v in vars(value).items() if k not in (*_LEFT_OUT, "_metadata_request")}
        return {"class": name, "fields": {k: _encode(v, f"{place}.{k}", arrays) for k, v in fields.items()}}
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [_encode(v, f"{place}.{i}", arrays) for i, v in enumerate(value)]}
    if isinstance(value, dict) and all(isinstance(k, str) for k in value):
        return {"dict": {k: _encode(v, f"{place}.{k}", arrays) for k, v in value.items()}}
    if isinstance(value, dict) and all(isinstance(k, (str, int)) and not isinstance(k, bool) for k in value):
        return {"pairs": [[k, _encode(v, f"{place}.{k}", arrays)] for k, v in value.items()]}
    raise TypeError(
        f"{place}: expected a number, string, array or class of structsvm, got {value!r}; a model file holds no "
        "code: set it to None or to a name before saving, or keep the model with joblib"
    )


def _decode(value: Any, arrays: _Arrays) -> Any:
    if not isinstance(value, dict):
        if isinstance(value, list):
            raise Damaged("a list that is not called one")
        return value
    (kind, content), *rest = value.items()
    if kind == "float":
        return float.fromhex(content)
    if kind == "array":
        return arrays[content]
    if kind == "names":
        names = arrays[content]
        if names.dtype.kind != "U":
            raise Damaged(f"{content}: expected names, got {names.dtype}")
        return names.astype(object)
    if kind == "list":
        return [_decode(v, arrays) for v in content]
    if kind == "tuple":
        return tuple(_decode(v, arrays) for v in content)
    if kind == "pairs":
        return {k: _decode(v, arrays) for k, v in content}
    if kind == "dict":
        return {k: _decode(v, arrays) for k, v in content.items()}
    if kind != "class" or [key for key, _ in rest] != ["fields"] or content not in _homes():
        raise Damaged(f"a {kind!r:.20} of {content!r:.40}")
    fields = {k: _decode(v, arrays) for k, v in rest[0][1].items()}
    cls = getattr(import_module(_homes()[content]), content)
    if not _has_fields(cls):
        raise Damaged(f"a class of {content!r:.40}")
    if issubclass(cls, tuple) or dataclasses.is_dataclass(cls):
        check_fields(cls, fields, get_type_hints(cls))
        made = cls(**fields)
        if dataclasses.is_dataclass(made):
            check_fitted(made, content)
        return made
    return _fitted(cls, fields)


def _fitted(cls: Any, fields: dict[str, Any]) -> Any:
    """An estimator with these attributes: all that a new one has, of the types it states, and fitted ones."""
    parameters = set(cls._get_param_names())
    fresh = vars(cls(**{key: value for key, value in fields.items() if key in parameters}))
    check_fields(cls, {k: v for k, v in fields.items() if k in parameters}, get_type_hints(cls.__init__))
    for key in fresh:
        if key not in fields and key not in _LEFT_OUT:
            raise Damaged(f"{cls.__name__} without {key}")
        if key not in parameters and fields[key] != fresh[key]:
            raise Damaged(f"{cls.__name__}.{key}: {fields[key]!r:.40}")
    for key in fields:
        # what is learned ends in an underscore, and covers no method
        if key not in fresh and (hasattr(cls, key) or not (key.endswith("_") or key == "_saw_qid")):
            raise Damaged(f"{cls.__name__}.{key:.40}: no such attribute")
    model = cls.__new__(cls)
    vars(model).update(fields)
    for key in parameters.intersection(_LEFT_OUT):
        setattr(model, key, None)
    check_fitted(model, cls.__name__)
    return model
