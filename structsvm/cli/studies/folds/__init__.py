"""Resumable comparison of methods on the folds of a benchmark.

C is chosen on validation queries, and measures are computed on test queries.

>>> import tempfile, pathlib
>>> from structsvm.readers import make_ranking, write_letor
>>> path = pathlib.Path(tempfile.mkdtemp(), "rows.txt")
>>> write_letor(make_ranking(30, 8, 4, random_state=0), path)
>>> results = run(find_folds(path, n_folds=3), ["svm-map", "best-feature"], [0.1, 1.0])
>>> [method.name for method in results.methods]
['svm-map', 'best-feature']
"""

from structsvm.cli.studies.folds.folds import Fold, FoldData, Part, find_folds, load_fold
from structsvm.cli.studies.folds.methods import METHODS, Training
from structsvm.cli.studies.folds.results import Measures, MethodResult, Results, run

__all__ = [
    "METHODS",
    "Fold",
    "FoldData",
    "Measures",
    "MethodResult",
    "Part",
    "Results",
    "Training",
    "find_folds",
    "load_fold",
    "run",
]
