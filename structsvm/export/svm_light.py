"""Linear models in the text format of SVM-light and SVM-rank."""

from pathlib import Path
from typing import Any

import numpy as np

from structsvm.common.checks import BadInput

HEAD = b"SVM-light Version"
_N_PARAMETERS = 10
"""Lines before the threshold: version, kernel and its parameters, highest feature, numbers of documents and vectors."""


def is_svm_light(path: Path) -> bool:
    """Return whether a file begins as a model of SVM-light or SVM-rank."""
    try:
        with path.open("rb") as file:
            return file.read(len(HEAD)) == HEAD
    except OSError:
        return False


def read_svm_light(path: Path) -> dict[str, Any]:
    """Return the attributes of a fitted linear ranker whose scores are those of ``svm_rank_classify``.

    Raises
    ------
    BadInput
        If the kernel is not linear, or if the file is cut short or damaged.
    """
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    fields = [line.split("#")[0].split() for line in lines]
    number = 0
    try:
        header = []
        for number in (1, 7, 9):  # a loop, because an error names the line ``number``
            header.append(int(fields[number][0]))
        kernel, highest, n_vectors = header
        if kernel != 0:
            raise BadInput(
                path, f"expected a model with a linear kernel, got kernel {kernel}", "train with -t 0"
            )
        number = _N_PARAMETERS
        threshold = float(fields[number][0])
        if not (0 <= highest < 1 << 31 and np.isfinite(threshold)):
            raise BadInput(
                path,
                f"expected a highest feature index < 2^31 and a finite threshold, got {highest} and {threshold}",
                "copy the file again",
            )
        coef = np.zeros(highest)
        vectors = [number for number in range(_N_PARAMETERS + 1, len(lines)) if fields[number]]
        if len(vectors) != n_vectors - 1:
            raise BadInput(
                path, f"expected {n_vectors - 1} support vectors, got {len(vectors)}", "copy the file again"
            )
        for number in vectors:
            alpha, *pairs = fields[number]
            for index, value in (pair.split(":") for pair in pairs):
                if not (1 <= int(index) <= highest and np.isfinite(float(alpha) * float(value))):
                    raise IndexError(index)
                coef[int(index) - 1] += float(alpha) * float(value)
    except (ValueError, IndexError) as error:
        if isinstance(error, BadInput):
            raise
        problem = "expected a model of SVM-light, got " + (
            f"{lines[number]!r:.60}" if number < len(lines) else "its end"
        )
        raise BadInput(f"{path}:{number + 1}", problem) from None
    return {
        "coef_": coef,
        "intercept_": 0.0 - threshold,
        "scaler_": None,
        "n_features_in_": highest,
        "_saw_qid": False,
    }
