"""Models in one ``.npz`` file: arrays and a JSON description, no pickle, so that loading never runs code."""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from structsvm._version import __version__
from structsvm.files import replacing

__all__ = ["load", "save"]

_FORMAT = "structsvm-model"
_FORMAT_VERSION = 1

# what a model file may name: class -> module
_CLASSES = {
    "StructuralRanker": "structsvm.estimators.structural",
    "StructuralRankerCV": "structsvm.estimators.cross_validation",
    "SVMMap": "structsvm.estimators.structural",
    "SVMNDCG": "structsvm.estimators.structural",
    "SVMRoc": "structsvm.estimators.structural",
    "AccuracySVM": "structsvm.estimators.accuracy",
    "CoRegularizedSGD": "structsvm.estimators.co_regularized",
    "LambdaRank": "structsvm.estimators.lambdarank",
    "OrdinalSVM": "structsvm.estimators.ordinal",
    "PairwiseSGD": "structsvm.estimators.pairwise_sgd",
    "PairwiseSVM": "structsvm.estimators.pairwise",
    "BinnedFeatures": "structsvm.features.binning",
    "FusionModel": "structsvm.fusion.model",
    "SVMDiv": "structsvm.estimators.diversity",
    "QueryScaler": "structsvm.features.scaling",
    "Level": "structsvm.features.words",
    "AveragePrecision": "structsvm.oracles.average_precision",
    "RocArea": "structsvm.oracles.roc_area",
    "Pairs": "structsvm.oracles.pairs",
    "NDCG": "structsvm.oracles.ndcg",
    "ReciprocalRank": "structsvm.oracles.reciprocal_rank",
    "PrecisionAt": "structsvm.oracles.precision",
    "Fit": "structsvm.trainers.fit",
    "Progress": "structsvm.protocols",
    "Descent": "structsvm.trainers.pairwise_descent",
    "LambdaRankFit": "structsvm.trainers.lambdarank",
    "Epoch": "structsvm.trainers.lambdarank",
}


# what numpy, zipfile and json raise for files that are something else, cut short or damaged
_NOT_OURS = (
    ValueError, KeyError, TypeError, EOFError, AttributeError, NotImplementedError, RuntimeError, zipfile.BadZipFile,
    zlib.error,
)  # fmt: skip


def save(model: Any, path: str | Path) -> None:
    """Write a fitted model of this package to ``path``.

    The file appears complete or not at all. A progress callback and requests for metadata routing
    (``set_fit_request``) are not saved.

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
    >>> model = structsvm.SVMMap().fit([[1.0], [0.0]], [1, 0])
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
    ...     structsvm.SVMMap(C=10).fit([[1.0], [0.0]], [1, 0]).save(folder + "/model.npz")
    ...     load(folder + "/model.npz")
    SVMMap(C=10)
    """
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        description = json.loads(bytes(arrays["description"]).decode())
        if description["format"] != _FORMAT:
            raise _not_ours(path)
        version = int(description["format_version"])
    except OSError as error:
        if error.errno is not None:  # the system could not read it; numpy's own complaints have no number
            raise
        raise _not_ours(path) from None
    except _NOT_OURS:
        raise _not_ours(path) from None
    if version > _FORMAT_VERSION:
        raise ValueError(
            f"{path}: model format {version}, this version of structsvm ({__version__}) reads up to "
            f"{_FORMAT_VERSION}; upgrade with: pip install -U structsvm-ranking"
        )
    try:
        return _decode(description["model"], arrays)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{path}: expected a complete structsvm model, got a damaged one ({error!r})"
        ) from error


def _not_ours(path: Path) -> ValueError:
    return ValueError(
        f"{path}: expected a structsvm model (written by save), got another or a damaged file; train and save again"
    )


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
    if name in _CLASSES and type(value).__module__ == _CLASSES[name]:
        if isinstance(value, tuple):  # a named tuple
            fields = value._asdict()  # type: ignore[attr-defined]
        elif dataclasses.is_dataclass(value):
            fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        else:
            fields = {k: v for k, v in vars(value).items() if k not in ("callback", "_metadata_request")}
        return {"class": name, "fields": {k: _encode(v, f"{place}.{k}", arrays) for k, v in fields.items()}}
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [_encode(v, f"{place}.{i}", arrays) for i, v in enumerate(value)]}
    if isinstance(value, dict) and all(isinstance(k, str) for k in value):
        return {"dict": {k: _encode(v, f"{place}.{k}", arrays) for k, v in value.items()}}
    raise TypeError(
        f"{place}: expected a number, string, array or class of structsvm, got {value!r}; a model file holds no "
        "code: set it to None or to a name before saving, or keep the model with joblib"
    )


def _decode(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if not isinstance(value, dict):
        return value
    (kind, content), *rest = value.items()
    if kind == "float":
        return float.fromhex(content)
    if kind == "array":
        return arrays[content]
    if kind == "names":
        return arrays[content].astype(object)
    if kind == "list":
        return [_decode(v, arrays) for v in content]
    if kind == "tuple":
        return tuple(_decode(v, arrays) for v in content)
    if kind == "dict":
        return {k: _decode(v, arrays) for k, v in content.items()}
    fields = {k: _decode(v, arrays) for k, v in rest[0][1].items()}
    cls = getattr(import_module(_CLASSES[content]), content)
    if issubclass(cls, tuple) or dataclasses.is_dataclass(cls):
        return cls(**fields)
    model = cls.__new__(cls)
    vars(model).update(fields)
    if "callback" in cls._get_param_names():
        model.callback = None
    return model
