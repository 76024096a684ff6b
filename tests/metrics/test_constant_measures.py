"""Every function that selects by a measure refuses one that has the same value for all rankings of the labels."""

from pathlib import Path

import numpy as np
import pytest

from structsvm import StructuralRankerCV, TreeRankerCV
from structsvm.cli.studies.fusion import cross_validate_fusion
from structsvm.clicks import ClickSVMCV
from structsvm.estimators import hybrid_weights
from structsvm.readers import Qrels, Run
from tests.refusing import rejected

SAME = "same value for all; choose by pairs"


def ratings(seed):
    """Return features, grades from 1 to 5 and queries; all rows are relevant."""
    rng = np.random.default_rng(seed)
    X, qid = rng.normal(size=(120, 3)), np.repeat(np.arange(12), 10)
    return X, np.clip(np.round(X[:, 0] + rng.normal(size=120) + 3), 1, 5), qid


def with_runs(seed):
    """Return one run for each feature, and judgments of all documents."""
    X, y, qid = ratings(seed)
    docid = np.arange(y.size).astype(str)
    runs = [Run.from_arrays(qid, docid, column, tag=f"run{j}") for j, column in enumerate(X.T)]
    return runs, Qrels.from_arrays(qid, docid, y.astype(int))


def estimator(kind, **options):
    def fit(seed, loss):
        X, y, qid = ratings(seed)
        return kind(loss, Cs=[0.1, 1.0], cv=3, **options).fit(X, y, qid=qid)

    return fit


def with_scoring(seed, loss):
    X, y, qid = ratings(seed)
    return StructuralRankerCV("ndcg@10", Cs=[0.1, 1.0], cv=3, scoring=loss).fit(X, y, qid=qid)


def fuse(seed, loss):
    runs, qrels = with_runs(seed)
    named = {run.tag: run for run in runs}
    return cross_validate_fusion(named, qrels, Cs=[0.1, 1.0], loss=loss, folds=3)


def hybrid(seed, loss):
    return hybrid_weights(*with_runs(seed), to="elasticsearch-rrf", measure=loss, n_boot=2)


DOORS = [estimator(StructuralRankerCV), estimator(TreeRankerCV), with_scoring, fuse, hybrid]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.filterwarnings("ignore:.*does not distinguish:UserWarning")
@pytest.mark.parametrize("loss", ["map", "mrr", "roc"])
def test_a_measure_that_no_ranking_changes_is_refused(door, loss):
    for seed in range(5):
        rejected(SAME, door, seed, loss)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.filterwarnings("ignore")
def test_a_measure_that_rankings_change_selects(door):
    door(0, "ndcg@10")


@pytest.mark.parametrize("command", ["search", "compare"])
@pytest.mark.parametrize("method", ["map", "mrr", "roc"])
def test_the_command_line_refuses_it(command, method, cli):
    X, y, qid = ratings(1)
    rows = [f"{g:g} qid:{q} 1:{a} 2:{b} 3:{c}" for (a, b, c), g, q in zip(X, y, qid, strict=True)]
    Path("ratings.txt").write_text("\n".join(rows))
    message = cli.refuses(command, "ratings.txt", "--method", method, "--C", "0.1,1")
    assert SAME in message


def test_fusion_selects_by_the_measure_of_its_loss():
    runs, qrels = with_runs(0)
    binary = Qrels.from_arrays(
        *[np.repeat(qrels.topics, np.diff(qrels.offsets)), qrels.docid, qrels.grades > 3]
    )
    named = {run.tag: run for run in runs}
    result = cross_validate_fusion(named, binary, Cs=[0.1, 1.0], loss="roc", folds=3)
    assert result.estimate.name == "roc"


@pytest.mark.parametrize("loss", ["pairs", "mean_pairs", "dcg@3", "mrr"])
def test_clicks_that_order_no_documents_are_refused(loss):
    for seed in range(5):
        X, _, qid = ratings(seed)
        equal = np.random.default_rng(seed).uniform(0.1, 5, 12)[qid]
        model = ClickSVMCV([0.1, 1.0], loss=loss, cv=3)
        rejected("same value for all; use a log", model.fit, X, equal, qid=qid)
