"""Models in one ``.npz`` file: arrays and a JSON description, without pickle, so that loading never runs code.

The description holds a digest of each array, and its own digest is beside it, so that a file that was edited or
contains an array of another model is refused. A crafted file can have valid digests: classes check saved numbers before
compiled code uses them as indices.
"""

import dataclasses
import io
import json
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from structsvm._version import __version__
from structsvm.common.array_files import Archive, Damaged, read_json
from structsvm.common.checks import BadInput
from structsvm.common.extras import SOURCE
from structsvm.common.files import is_packed, replacing
from structsvm.common.lazy import homes
from structsvm.common.machine import memory_bytes
from structsvm.export.svm_light import is_svm_light, read_svm_light

_FORMAT = "structsvm-model"
_FORMAT_VERSION = 2

_ROOMS = tuple(f"structsvm.{room}" for room in ("clicks", "estimators", "features", "oracles", "trainers"))
"""Folders that define the classes that a model file may name: all classes that the folder or the package exports."""

_RECORDS = {
    "Descent": "structsvm.trainers.pairwise_descent",
    "EvaluationResult": "structsvm.metrics.results",
    "Epoch": "structsvm.trainers.lambdarank",
    "Forest": "structsvm.features.forest",
    "LambdaRankFit": "structsvm.trainers.lambdarank",
    "Progress": "structsvm.protocols",
}
"""Classes of the attributes of models, with their modules; a model file may also name these classes."""

_LARGEST_DESCRIPTION = 1 << 26

_LEFT_OUT = ("callback", "growth_callback", "constraints", "penalty")
"""Parameters that are functions: a model file holds no code. They are None after loading."""


def save(model: object, path: str | Path) -> None:
    """Write a fitted model or transformer of this package to ``path`` atomically.

    Parameters that are functions and requests for metadata routing are not saved; ``constraints_`` and ``penalty_``
    describe in text what the functions returned.
    """
    path = Path(path)
    if is_packed(path):
        raise BadInput(path, f"models are compressed already; expected a name such as {path.stem!r}")
    if hasattr(model, "fit"):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(model)
    arrays: dict[str, np.ndarray] = {}
    description = {
        "format": _FORMAT,
        "format_version": _FORMAT_VERSION,
        "structsvm": __version__,
        "model": _encode(model, "model", arrays),
        "digests": {name: _digest(array) for name, array in arrays.items()},
    }
    arrays["description"] = np.frombuffer(json.dumps(description).encode(), dtype=np.uint8)
    arrays["digest"] = np.array(_digest(arrays["description"]))
    buffer = io.BytesIO()
    try:
        np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    except ValueError as error:  # zipfile hides an interrupt behind its own error about an open entry
        raise (error.__context__ or error) from None
    with replacing(path) as file:
        file.write(buffer.getvalue())


def load(path: str | Path) -> Any:
    """Read a model that ``model.save`` wrote, a transformer of ``structsvm.export.model_file.save``, or a linear model
    of SVM-light or SVM-rank.

    Parameters
    ----------
    path : str or Path
        File to read.

    Returns
    -------
    estimator
        Fitted model, of the class that was saved; an :class:`~structsvm.AccuracySVM` with the weights of a model of
        SVM-light or SVM-rank.

    Raises
    ------
    ValueError
        If the file is not a model of this package, is damaged, or has another format.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> import structsvm
    >>> structsvm.SVMMap(C=10).fit([[1.0], [0.0]], [1, 0], qid=0).save("model.npz")
    >>> load("model.npz")
    SVMMap(C=10)
    """
    # three stages with separate errors: whether this is a model at all, its version, and its content
    path = Path(path)
    if is_svm_light(path):
        model = import_module(_homes()["AccuracySVM"]).AccuracySVM()
        vars(model).update(read_svm_light(path))
        return model
    try:
        with Archive(path) as archive:
            try:
                raw = archive.array("description", most_bytes=_LARGEST_DESCRIPTION)
                description = read_json(raw.tobytes())
                if description["format"] != _FORMAT or type(description["format_version"]) is not int:
                    raise _not_ours(path)
                version, content = description["format_version"], description.get("model")
            except (KeyError, TypeError, AttributeError):
                raise _not_ours(path) from None
            if version != _FORMAT_VERSION:
                newer = f"install a newer version of structsvm: pip install {SOURCE} in its source folder"
                raise BadInput(
                    path,
                    f"model format {version}, this version of structsvm ({__version__}) reads {_FORMAT_VERSION}",
                    newer if version > _FORMAT_VERSION else "train and save again",
                )
            try:
                if not isinstance(content, dict) or "class" not in content:
                    raise Damaged("no model")
                if archive.array("digest", most_bytes=1 << 10) != _digest(raw):
                    raise Damaged("a changed description")
                return _decode(content, _Arrays(archive, description["digests"]))
            except (
                KeyError,
                TypeError,
                IndexError,
                AttributeError,
                ValueError,
                ArithmeticError,
                RecursionError,
            ) as error:
                what = " ".join((str(error) if isinstance(error, Damaged) else f"{error!r:.100}").split())
                raise BadInput(
                    path,
                    f"expected a complete structsvm model, got a damaged one ({what})",
                    "train and save again",
                ) from error
    except Damaged:
        raise _not_ours(path) from None


class _Arrays:
    """The arrays of a model file that its description refers to; together they must fit into memory."""

    def __init__(self, archive: Archive, digests: dict[str, str]) -> None:
        self._archive, self._digests = archive, digests
        self._left = memory_bytes()
        self._read: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        if not isinstance(name, str):
            raise Damaged(f"no array {name!r:.40}")
        if name not in self._read:
            array = self._archive.array(name, most_bytes=self._left)
            if self._digests[name] != _digest(array):
                raise Damaged(f"a changed {name}")
            self._read[name] = array
            self._left -= array.nbytes
        return self._read[name]


def _digest(array: np.ndarray) -> str:
    declared = f"{array.dtype.str} {array.shape} ".encode()
    return sha256(declared + array.tobytes()).hexdigest()[:32]


def _not_ours(path: Path) -> ValueError:
    return BadInput(
        path,
        "expected a structsvm model (written by save), got another or a damaged file",
        "check the order of the files, or train and save again",
    )


@cache
def _homes() -> dict[str, str]:
    """Return the module of each class that a model file may name; nothing outside the package is ever imported."""
    rooms = tuple(f"{room}." for room in _ROOMS)
    exported = [homes(room) for room in ("structsvm", *_ROOMS)]
    known = {name: home for table in exported for name, home in table.items() if home.startswith(rooms)}
    return known | _RECORDS


def _has_fields(cls: object) -> bool:
    """Return whether a class is a record or an estimator, which ``_decode`` constructs from its fields."""
    names = ("__dataclass_fields__", "_fields", "_get_param_names")
    return isinstance(cls, type) and any(hasattr(cls, name) for name in names)


def _encode(value: Any, path: str, arrays: dict[str, np.ndarray]) -> Any:
    """Return a value as JSON; its arrays are added to ``arrays`` under their path in the model."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}  # JSON has neither NaN nor infinity, and some readers round
    if isinstance(value, np.ndarray):
        if value.dtype != object:
            arrays[path] = value
            return {"array": path}
        if all(isinstance(v, str) for v in value.flat):  # scikit-learn keeps names as an array of objects
            arrays[path] = value.astype(str)
            return {"names": path}
    name = type(value).__name__
    if _homes().get(name) == type(value).__module__ and _has_fields(type(value)):
        # estimators are saved with all attributes, records with their fields
        if isinstance(value, tuple):
            fields = value._asdict()  # type: ignore[attr-defined]
        elif not hasattr(value, "get_params"):
            saved = [f.name for f in dataclasses.fields(value) if f.metadata.get("saved", True)]
            fields = {name: getattr(value, name) for name in saved}
        else:
            fields = {k: v for k, v in vars(value).items() if k not in (*_LEFT_OUT, "_metadata_request")}
        return {"class": name, "fields": {k: _encode(v, f"{path}.{k}", arrays) for k, v in fields.items()}}
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [_encode(v, f"{path}.{i}", arrays) for i, v in enumerate(value)]}
    if isinstance(value, dict) and all(isinstance(k, str) for k in value):
        return {"dict": {k: _encode(v, f"{path}.{k}", arrays) for k, v in value.items()}}
    if isinstance(value, dict) and all(isinstance(k, (str, int)) and not isinstance(k, bool) for k in value):
        return {"pairs": [[k, _encode(v, f"{path}.{k}", arrays)] for k, v in value.items()]}
    raise TypeError(
        f"{path}: expected a number, string, array or class of structsvm, got {value!r}; a model file holds no "
        "code: replace it before saving, for example with set_params(loss='map'), or keep the model with joblib"
    )


def _decode(value: object, arrays: _Arrays) -> Any:
    """Return the value that ``_encode`` described; other descriptions raise one of the errors that ``load`` lists."""
    if isinstance(value, list):
        raise Damaged("a list without a tag")
    if not isinstance(value, dict):
        return value
    # every other object is {tag: content}, a class {"class": name, "fields": {...}}
    (tag, content), *rest = value.items()
    if tag == "float":
        return float.fromhex(content)
    if tag == "array":
        return arrays[content]
    if tag == "names":
        names = arrays[content]
        if names.dtype.kind != "U":
            raise Damaged(f"{content}: expected names, got {names.dtype}")
        return names.astype(object)
    if tag in ("list", "tuple"):
        return (list if tag == "list" else tuple)(_decode(v, arrays) for v in content)
    if tag in ("dict", "pairs"):
        return {k: _decode(v, arrays) for k, v in (content.items() if tag == "dict" else content)}
    if tag != "class" or [key for key, _ in rest] != ["fields"] or content not in _homes():
        raise Damaged(f"an unknown tag {tag!r:.20} of {content!r:.40}")
    fields = {k: _decode(v, arrays) for k, v in rest[0][1].items()}
    cls = getattr(import_module(_homes()[content]), content)
    if not _has_fields(cls):
        raise Damaged(f"a class that is never saved, {content!r:.40}")
    if not hasattr(cls, "get_params"):
        return cls(**fields)  # a record, whose constructor may check its fields
    parameters = set(cls._get_param_names())
    # parameters that are newer than the file get their defaults; parameters that this version no longer has are ignored
    model = cls(**{key: value for key, value in fields.items() if key in parameters})
    kept = {key for key in fields if key in parameters or key.endswith("_") or key.startswith("_")}
    vars(model).update({key: fields[key] for key in kept})
    for key in parameters.intersection(_LEFT_OUT):
        setattr(model, key, None)
    return model
