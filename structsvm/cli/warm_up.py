"""``structsvm warm-up``: run each compiled part of the package on a few synthetic rows."""

import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import typer

import structsvm
from structsvm import clicks, features, online, oracles, readers, trainers
from structsvm.cli.terminal import working
from structsvm.common import compiling
from structsvm.common.checks import BadInput
from structsvm.common.lazy import labelled
from structsvm.oracles import LOSSES


def warm_up() -> None:
    """Compile everything now, so that later processes start fast.

    Compiled code is kept for the processor of this machine, in the folder of the package or, if that is not writable,
    in the user's cache. NUMBA_CACHE_DIR selects another folder, and NUMBA_CPU_NAME an older processor.
    """
    from structsvm.common.interpreted import compiling_all
    from structsvm.common.kernel import kept_in

    before = compiling.compiled()
    with working("") as status, warnings.catch_warnings(), compiling_all():
        warnings.simplefilter("ignore")
        todo, left_out = steps(), []
        for number, (name, step) in enumerate(todo, 1):
            status.update(f"compiling, {number} of {len(todo)}: {name}")
            try:
                step()
            except ImportError as error:  # an extra that is not installed
                left_out.append(f"left out {name}: {error}")
    folder = kept_in()
    if folder is None:
        raise BadInput(
            "warm-up",
            "expected a writable folder for compiled code",
            "name one in the environment variable NUMBA_CACHE_DIR",
        )
    for line in left_out:
        typer.echo(line, err=True)
    typer.echo(f"compiled {compiling.compiled() - before} functions, kept in {folder}")


def steps() -> list[tuple[str, Callable[[], object]]]:
    """Return names and functions that compile each part when called."""
    from scipy import sparse

    from structsvm.common.row_checks import column_ranges
    from structsvm.trainers.choosing_solver import TRAINERS

    # enough queries for Newton's method to be used
    made = readers.make_ranking(130, 8, 4, grades=3, random_state=0)
    y, qid, dense = made.y, made.qid, np.ascontiguousarray(made.X)
    rows, single = sparse.csr_matrix(dense), dense.astype(np.float32)
    kinds: dict[str, Any] = {
        "": dense,
        " sparse": rows,
        " float32": single,
        " sparse float32": rows.astype("f4"),
    }
    wide = sparse.csr_matrix((rows.data, rows.indices, rows.indptr), (len(y), 300))
    structural: Any = partial(structsvm.StructuralRanker, C=10.0)
    brief: dict[str, Any] = {"n_steps": 1000, "random_state": 0}
    of_each_kind = [
        *(structural(loss.replace("@k", "@5")) for loss in LOSSES),
        *(structural(solver=name) for name, one in TRAINERS.items() if "hinge" in one.supports),
        *(structsvm.PairwiseSVM(loss, C=10.0) for loss in ("hinge", "squared_hinge")),
        *(
            structsvm.LambdaRank(utility, max_epochs=2, random_state=0)
            for utility in ("ndcg", "map", "mrr", "ranknet")
        ),
        structsvm.PairwiseSGD(**brief),
        structsvm.CoRegularizedSGD(views=[[0, 1], [2, 3]], **brief),
    ]
    trees: Any = {"n_trees": 4, "min_rows": 2, "random_state": 0}
    models: list[tuple[Any, Any, str]] = [
        *((model, X, kind) for kind, X in kinds.items() for model in of_each_kind),
        (structural(monotone_constraints=[1, -1, 0, 0], solver="frank_wolfe", tol=1e-6), dense, ""),
        (structural(positive=True, solver="one_slack"), dense, ""),
        (structural(solver="frank_wolfe", tol=1e-5), wide, " with many sparse features"),
        # a grid of two values does not warn about its ends
        (structsvm.StructuralRankerCV("map", Cs=[0.1, 10.0], cv=2), dense, ""),
        *((structsvm.TreeRanker(n_leaves=n, **trees), dense, "") for n in (4, 80)),
        (structsvm.TreeRanker(n_leaves=4, monotone_constraints=[1, -1, 0, 0], **trees), dense, ""),
        (structsvm.TreeRanker(n_leaves=4, solver="frank_wolfe", **trees), single, ""),
        (structsvm.TreeRanker(n_leaves=80, solver="one_slack", **trees), single, ""),
        (structsvm.OrdinalSVM(), dense, ""),
        (structsvm.AccuracySVM(), dense, ""),
    ]
    return [
        *((f"{model!r}{kind}", partial(_ranker, model, X, y, qid)) for model, X, kind in models),
        ("binned", partial(_binned, dense, y, qid)),
        # compiled code computes the ranges of large matrices only
        *(
            (f"ranges{kind}", partial(column_ranges, np.zeros((512, 512), kinds[kind].dtype), missing=False))
            for kind in ("", " float32")
        ),
        *((step.__name__.strip("_"), step) for step in (_sets, _clicks, _files, _online)),
    ]


def _ranker(model: Any, X: Any, y: object, qid: Any) -> None:
    more = {"unlabeled": qid > qid.mean()} if isinstance(model, structsvm.CoRegularizedSGD) else {}
    model.fit(X, y, qid=qid, **more).score(X, y, qid=qid)


def _binned(X: object, y: Any, qid: object) -> None:
    from structsvm.queries import group_queries

    rows = features.BinnedFeatures(n_bins=4).fit(X).transform_rows(X)
    offsets = group_queries(qid, len(y)).offsets
    problem = trainers.RankingProblem(rows, offsets, oracles.AveragePrecision().bind(y, offsets))
    for solver in ("one_slack", "frank_wolfe"):
        trainers.train(problem, 1.0, solver=solver)
    rows.tocsr()


def _sets() -> None:
    sets = [structsvm.CandidateSet(["apple pie", "apple pie and cake", "sea ship sail"])] * 8
    labels = [[[1, 0], [1, 0], [0, 1]]] * 8
    for prediction in ("greedy", "swap"):
        structsvm.SVMDiv(C=10, k=2, prediction=prediction).fit(sets, labels).predict(sets)
    structsvm.DiverseRanker(2).fit(sets, labels).predict(sets)


def _clicks() -> None:
    cells = clicks.ClickCells.from_arrays(
        [1, 2, 1] * 4, [5] * 3 + [6] * 6 + [5] * 3, [1, 1, 1, 2, 2, 2] * 2, [1, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1, 0],
        session=[1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6],
    )  # fmt: skip
    ranker = structsvm.ClickSVM(propensities=clicks.harvest(cells))
    ranker.fit([[1.0], [0.0]] * 2, cells, qid=[1, 1, 2, 2], docid=[5, 6] * 2)
    clicks.trust_bias(cells)
    for model in (*labelled("structsvm.clicks", "abbreviation").values(), clicks.CascadeModel):
        model().fit(cells)


def _files() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.txt")
        path.write_text("2 qid:7 1:0.5 3:1 # docid = A\n0 qid:7 2:1e-3\n1 qid:9 1:1\n")
        for sparse in (False, True):
            readers.read_letor(path, sparse=sparse)


def _online() -> None:
    from structsvm.online.bandits.by_name import compiled_names

    world = [[0.5, 0.8, 0.7], [0.2, 0.5, 0.6], [0.3, 0.4, 0.5]]
    for name in compiled_names():
        online.simulate(name, world, horizon=300, n_runs=2, seed=0)
