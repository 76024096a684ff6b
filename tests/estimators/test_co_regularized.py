"""CoRegularizedSGD: special cases, the effect of unlabelled rows, and parameter search."""

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold

from structsvm import CoRegularizedSGD, PairwiseSGD
from structsvm.readers import make_ranking
from tests.refusing import rejected


@pytest.fixture(scope="module")
def data():
    return make_ranking(40, 15, 6, noise=0.3, random_state=0)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("loss", ["hinge", "squared"])
def test_without_agreement_views_are_spd(data, make, loss):
    model = CoRegularizedSGD(3, mu=0.0, loss=loss, n_steps=3000, random_state=5)
    model.fit(make(data.X), data.y, qid=data.qid)
    assert sorted(np.concatenate(model.views_)) == list(range(6))
    total = np.zeros(6)
    for columns, w in zip(model.views_, model.view_coefs_, strict=True):
        alone = PairwiseSGD(loss, n_steps=3000, random_state=5)
        alone.fit(make(np.ascontiguousarray(data.X[:, columns])), data.y, qid=data.qid)
        assert (alone.coef_ == w).all()
        total[columns] += w
    assert (model.coef_ == total / 3).all()


@pytest.mark.parametrize("mu", [0.0, 1.0])
def test_one_view_is_spd(data, mu):
    one = CoRegularizedSGD(1, mu=mu, n_steps=3000, random_state=5).fit(data.X, data.y, qid=data.qid)
    spd = PairwiseSGD(n_steps=3000, random_state=5).fit(data.X, data.y, qid=data.qid)
    assert (one.coef_ == spd.coef_).all()


@pytest.mark.parametrize(
    ("make", "scale"), [(np.asarray, "none"), (np.asarray, "query-zscore"), (sparse.csr_matrix, "none")]
)
def test_mask_equals_separate_rows(data, make, scale):
    unlabeled = np.isin(data.qid, np.unique(data.qid)[10:])
    y = np.where(unlabeled, np.nan, data.y)
    X = make(data.X)
    model = CoRegularizedSGD(n_steps=2000, scale=scale, random_state=0)
    masked = clone(model).fit(X, y, qid=data.qid, unlabeled=unlabeled)
    apart = clone(model).fit(
        X[~unlabeled],
        data.y[~unlabeled],
        qid=data.qid[~unlabeled],
        X_unlabeled=X[unlabeled],
        qid_unlabeled=data.qid[unlabeled],
    )
    assert (masked.coef_ == apart.coef_).all()
    supervised = (
        clone(model).set_params(mu=0.0).fit(X[~unlabeled], data.y[~unlabeled], qid=data.qid[~unlabeled])
    )
    assert (masked.coef_ != supervised.coef_).any()
    # labels that are not to be looked at do not matter
    for hidden in (7.0, "?", None):
        labels = data.y.astype(object)
        labels[unlabeled] = hidden
        other = clone(model).fit(X, labels, qid=data.qid, unlabeled=unlabeled)
        assert (other.coef_ == masked.coef_).all()


def test_without_unlabelled_rows_views_agree_on_all_documents(data, caplog):
    """A training part in cross-validation may be labelled completely: its mask has the effect of None."""
    all_labelled = np.zeros(data.n_rows, dtype=bool)
    coefs = [
        CoRegularizedSGD(n_steps=2000, random_state=0).fit(data.X, data.y, qid=data.qid, unlabeled=mask).coef_
        for mask in (None, all_labelled)
    ]
    assert (coefs[0] == coefs[1]).all()
    apart = CoRegularizedSGD(n_steps=2000, mu=0.0, random_state=0).fit(data.X, data.y, qid=data.qid).coef_
    assert (coefs[0] != apart).any()
    # one unlabelled document a query makes no pair: that is said
    first = np.append(True, np.diff(data.qid) != 0)
    with caplog.at_level("INFO", logger="structsvm"):
        CoRegularizedSGD(n_steps=10).fit(data.X, data.y, qid=data.qid, unlabeled=first)
    assert "there are no pairs on which to agree" in caplog.text


def test_partial_fit_goes_on(data):
    unlabeled = data.qid >= 20
    long = CoRegularizedSGD(n_steps=2000, random_state=1).fit(
        data.X, data.y, qid=data.qid, unlabeled=unlabeled
    )
    parts = CoRegularizedSGD(n_steps=1000, random_state=1)
    for _ in range(2):
        parts.partial_fit(data.X, data.y, qid=data.qid, unlabeled=unlabeled)
    assert (parts.coef_ == long.coef_).all()
    parts.partial_fit(data.X[:100], data.y[:100], qid=data.qid[:100], n_steps=10)
    assert parts.fit_.t == 2010


def test_views_by_name_and_overlapping(data):
    frame = pytest.importorskip("pandas").DataFrame(data.X, columns=list("abcdef"))
    frame["qid"] = data.qid
    named = CoRegularizedSGD([["c", "a"], ["b", "c"]], n_steps=500, random_state=0).fit(frame, data.y)
    numbered = CoRegularizedSGD([[0, 2], [1, 2]], n_steps=500, random_state=0).fit(
        data.X, data.y, qid=data.qid
    )
    assert (named.coef_ == numbered.coef_).all()
    assert (named.coef_[3:] == 0).all()


def test_grid_search_with_unlabeled_rows(data):
    unlabeled = data.qid % 4 == 0
    more = make_ranking(10, 15, 6, random_state=3)
    with config_context(enable_metadata_routing=True):
        for extra in ({"unlabeled": unlabeled}, {"X_unlabeled": more.X, "qid_unlabeled": more.qid}):
            search = GridSearchCV(
                CoRegularizedSGD(n_steps=500, random_state=0),
                {"mu": [0.0, 0.1], "views": [2, [[0, 1], [2, 3]]]},
                cv=GroupKFold(2),
                error_score="raise",
            ).fit(data.X, data.y, qid=data.qid, groups=data.qid, **extra)
            assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize(
    ("options", "extra", "message"),
    [
        ({"views": 0}, {}, "views=0"),
        ({"views": []}, {}, "views: expected at least one view"),
        ({"views": None}, {}, "views=None: expected an integer >= 1 or a list"),
        ({"views": 2.0}, {}, "views=2.0: expected an integer >= 1 or a list"),
        ({"views": [np.arange(6) < 3]}, {}, r"views\[0\]: True: expected a name or a column from 0"),
        ({"views": [[0], []]}, {}, r"views\[1\]: expected at least one column"),
        ({"views": [[0, 9]]}, {}, r"views\[0\]: 9: expected a name or a column from 0 to 5"),
        ({"views": [["a"]]}, {}, r"views\[0\]: 'a': the features have no names"),
        ({"mu": -1}, {}, "mu=-1"),
        ({"k": 0}, {}, "k=0"),
        ({"l": -1}, {}, "l=-1"),
        ({}, {"unlabeled": [True]}, "unlabeled: expected one bool for each of the 600 rows"),
        ({}, {"unlabeled": np.ones(600, dtype=bool)}, "no labelled row"),
        (
            {},
            {"unlabeled": np.ones(600, dtype=bool), "X_unlabeled": [[1.0]]},
            "either unlabeled= or X_unlabeled=",
        ),
        ({}, {"qid_unlabeled": [1]}, "requires X_unlabeled"),
        ({}, {"unlabeled": np.zeros(600, dtype=bool), "qid_unlabeled": [1]}, "requires X_unlabeled"),
        ({}, {"X_unlabeled": [[1.0], [2.0]]}, "^X_unlabeled: X has 1 features"),
        ({}, {"X_unlabeled": np.full((2, 6), np.nan)}, r"^X_unlabeled: X\[0, 0\]: expected a finite number"),
        ({}, {"X_unlabeled": np.eye(6), "qid_unlabeled": [1]}, "^X_unlabeled: qid: expected 6 ids"),
        ({}, {"X_unlabeled": sparse.csr_matrix(np.eye(6))}, "one dense and one sparse"),
    ],
)
def test_bad_input(data, options, extra, message):
    rejected(message, CoRegularizedSGD(**options).fit, data.X, data.y, qid=data.qid, **extra)


@pytest.mark.parametrize("n_labels", [1, 599])
def test_another_number_of_labels_than_rows_with_a_mask(data, n_labels):
    with pytest.raises(ValueError, match=rf"inconsistent numbers of samples: \[600, {n_labels}\]"):
        CoRegularizedSGD().fit(data.X, data.y[:n_labels], qid=data.qid, unlabeled=data.qid > 20)


def test_early_stopping_holds_out_labelled_queries_and_keeps_the_best(data):
    unlabeled = data.qid >= np.unique(data.qid)[20]
    y = np.where(unlabeled, np.nan, data.y)  # a look at an unlabelled query would be NaN
    stopped = CoRegularizedSGD(
        n_steps=40_000, early_stopping=True, n_iter_no_change=3, validation_fraction=0.3, random_state=0
    ).fit(data.X, y, qid=data.qid, unlabeled=unlabeled)
    steps, values = zip(*stopped.history_, strict=True)
    assert np.isfinite(values).all()
    assert stopped.fit_.t == steps[int(np.argmax(values))]
    assert len(values) == 20 or max(values) not in values[-3:]
    watched = CoRegularizedSGD(n_steps=2000, random_state=0)
    watched.fit(data.X, y, qid=data.qid, unlabeled=unlabeled, validation=(data.X, data.y, data.qid))
    best = max(value for _, value in watched.history_)
    assert watched.score(data.X, data.y, qid=data.qid) == best
