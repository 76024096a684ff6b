"""The optimum is the same over partitions of a collection or of files; queries stay whole; errors name the row."""

import logging
import re
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import structsvm
from structsvm import StructuralRanker
from structsvm.common.checks import BadInput
from structsvm.dask import DaskStructuralRanker, DaskStructuralRankerCV
from structsvm.metrics import evaluate
from structsvm.readers import write_letor, write_store
from structsvm.trainers.certificate import ConvergenceWarning
from tests.trainers.problems import bind, objective

dd = pytest.importorskip("dask.dataframe", reason="pip install '.[dask]'")
import dask.array as da  # noqa: E402
from dask import delayed  # noqa: E402

from tests.refusing import refused, rejected  # noqa: E402

TOL = 1e-3


NAMES = [f"f{j}" for j in range(5)]


def ranker(client, **options):
    return DaskStructuralRanker(**{"loss": "map", "C": 10.0, "tol": TOL, "client": client, **options})


def fitted(client, frame, npartitions, **options):
    """Return a ranker fitted to a frame; queries that partitions split are joined (``groups="mend"``)."""
    ddf = dd.from_pandas(frame, npartitions=npartitions)
    return ranker(client, **{"groups": "mend", **options}).fit(ddf, "label", qid="qid")


def whole(frame):
    """Return the frame in partitions of whole queries."""
    return dd.from_pandas(frame, npartitions=1).repartition(divisions=[0, 360, 960, 1439])


def part_of(rows):
    """Return a delayed partition of some rows of a frame."""
    return delayed((rows[NAMES], rows["label"], rows["qid"]))


def on_one_machine(X, y, qid, **options):
    return StructuralRanker("map", C=10.0, tol=TOL).fit(X, y, qid=qid, **options)


def nearly(fit):
    """Return the objective of another fit, with a tolerance for the gaps of both."""
    return pytest.approx(fit.primal, rel=2 * TOL)


@pytest.fixture(scope="module")
def local(data):
    return on_one_machine(data.X, data.y, data.qid)


def same_optimum(model, local, data, rel=1e-12):
    fit = model.fit_
    assert fit.converged
    assert model.n_queries_ == data.n_queries
    assert fit.dual <= local.fit_.primal * (1 + 1e-12)
    assert fit.primal >= local.fit_.dual * (1 - 1e-12)
    assert fit.primal == pytest.approx(objective(bind((data.X, data.y, data.offsets)), 10.0, fit.w), rel=rel)


def write_tables(frame, folder, borders):
    for k, (a, b) in enumerate(zip([0, *borders], [*borders, len(frame)], strict=True)):
        frame.iloc[a:b].to_parquet(folder / f"part-{k}.parquet")
    return str(folder / "part-*.parquet")


WHOLE = [12 * 30, 12 * 80]
CUTTING = [12 * 30 + 5, 12 * 80 + 1]


@pytest.mark.parametrize("kind", ["frame", "array", "delayed", "parquet", "texts", "stores"])
def test_every_input_gives_the_optimum_of_one_machine(kind, client, data, frame, local, tmp_path):
    y, qid = None, None
    if kind == "frame":
        X, y, qid = whole(frame), "label", "qid"
    elif kind == "array":
        X, y, qid = (da.from_array(a, chunks=(480, *a.shape[1:])) for a in (data.X, data.y, data.qid))
    elif kind == "delayed":
        rows = [slice(0, 360), slice(360, 960), slice(960, 1440)]
        X = [delayed((data.X[r], data.y[r], data.qid[r])) for r in rows]
    elif kind == "parquet":
        X = write_tables(frame, tmp_path, WHOLE)
    elif kind == "texts":
        for k, queries in enumerate([np.arange(50), np.arange(50, 120)]):
            write_letor(data.select(queries), tmp_path / f"{k}.txt")
        X = str(tmp_path / "*.txt")
    else:
        for k, queries in enumerate([np.arange(50), np.arange(50, 120)]):
            write_store(data.select(queries), tmp_path / f"{k}.store")
        X = [tmp_path / "0.store", tmp_path / "1.store"]
    model = ranker(client).fit(X, y, qid=qid)
    digits = 1e-8 if kind == "texts" else 1e-12  # texts have nine digits of a float32
    same_optimum(model, local, data, digits)
    assert model.n_partitions_ >= 2
    assert model.score(X, y, qid=qid) == pytest.approx(local.score(data.X, data.y, qid=data.qid), abs=2e-3)
    names = NAMES if kind in ("frame", "parquet") else []
    assert getattr(model, "feature_names_in_", np.array([])).tolist() == names
    assert set(model.memory_[next(iter(model.memory_))]) == {"rows", "planes", "limit"}
    rows = sum(each["rows"] for each in model.memory_.values())
    width = {"stores": 0, "texts": 6 * 8}.get(kind, 5 * 4 + 8)  # of texts float64
    assert rows == width * data.n_rows


def test_predictions_are_lazy_and_of_the_same_partitions(client, data, frame, tmp_path):
    ddf = dd.from_pandas(frame, npartitions=7)
    model = fitted(client, frame, 7)
    assert model.predict(ddf).npartitions == 7
    expected = data.X.astype(np.float64) @ model.coef_
    X = da.from_array(data.X, chunks=(100, 2))
    for given in (ddf, ddf[NAMES[::-1]], X):  # columns are found by name
        np.testing.assert_allclose(model.predict(given).compute(scheduler="sync"), expected, rtol=1e-9)
    refused("expected the column 'f3', as in fit", model.predict, ddf[["f0", "f1", "f2", "f4"]])
    refused("expected 5 features, as in fit, got 4", model.predict, X[:, :4])
    local_model = model.to_local()
    np.testing.assert_allclose(local_model.predict(frame[NAMES]), expected, rtol=1e-9)
    local_model.save(tmp_path / "m.npz")
    again = structsvm.load(tmp_path / "m.npz")
    np.testing.assert_array_equal(again.coef_, model.coef_)
    assert again.fit_.gap == model.fit_.gap
    ranks = model.rank(whole(frame), "qid").compute(scheduler="sync").to_numpy()
    np.testing.assert_array_equal(ranks, local_model.rank(frame[NAMES], data.qid))
    refused(
        r"is split: .*; rank never moves rows and ignores groups=: sort the data",
        model.rank,
        ddf,
        "qid",
    )


def test_evaluation_is_that_of_one_machine(client, data, frame):
    ddf = dd.from_pandas(frame, npartitions=7)
    model = fitted(client, frame, 7)
    scores = data.X.astype(np.float64) @ model.coef_
    names = ["map", "ndcg@10", "mrr", "precision@3", "err", "roc"]
    results = model.evaluate(ddf, "label", qid="qid", metrics=names, convention="burges")
    for name in names:
        expected = evaluate(name, data.y, scores, qid=data.qid, convention="burges")
        np.testing.assert_array_equal(results[name].query_ids, expected.query_ids)
        np.testing.assert_allclose(results[name].per_query, expected.per_query, rtol=1e-12)
        assert results[name].mean == pytest.approx(expected.mean, rel=1e-12)
    rejected("metric='ndgc'", model.evaluate, ddf, "label", qid="qid", metrics=["ndgc"])


@pytest.mark.parametrize("groups", ["mend", "shuffle"])
def test_a_cut_query_is_made_whole(groups, client, data, frame, local, tmp_path):
    path = write_tables(frame, tmp_path, CUTTING)
    with pytest.raises(BadInput) as error:
        ranker(client).fit([str(tmp_path / f"part-{k}.parquet") for k in range(3)])
    # files make as many as threads
    assert re.search("query (30|80) is split: it has rows in", str(error.value))
    assert "groups='mend'" in str(error.value)
    same_optimum(ranker(client, groups=groups).fit(path), local, data)


def test_a_query_over_three_partitions_is_mended_along_the_chain(client, data, frame, local):
    X = [part_of(frame.iloc[a:b]) for a, b in ((0, 365), (365, 366), (366, 369), (369, 1440))]
    refused(r"query 30 is split: .* partition 0, partition 1 and 2 more", ranker(client).fit, X)
    same_optimum(ranker(client, groups="mend").fit(X), local, data)


def test_queries_that_are_cut_elsewhere_are_found_and_shuffled(client, frame, local):
    """Ids are not sorted, so that rows of a query are also in partitions that are not adjacent."""
    rng = np.random.default_rng(0)
    mixed = frame.assign(qid="q" + frame["qid"].astype(str)).iloc[rng.permutation(len(frame))]
    ddf = dd.from_pandas(mixed.reset_index(drop=True), npartitions=3)
    with pytest.raises(BadInput, match=r"query 'q\d+' is split.*and 119 more are.*groups='shuffle'"):
        ranker(client).fit(ddf, "label", qid="qid")
    with pytest.raises(BadInput, match=r"not only at their common borders; use groups='shuffle'"):
        ranker(client, groups="mend").fit(ddf, "label", qid="qid")
    model = ranker(client, groups="shuffle").fit(ddf, "label", qid="qid")
    assert model.fit_.primal == nearly(local.fit_)


@pytest.mark.parametrize("kinds", [("int32", "int64"), ("int64", "int16"), ("int8", "int8")])
def test_negative_ids_of_any_width_are_the_same_query(kinds, client, frame, tmp_path):
    ids = -1 - frame["qid"]
    # in two partitions by the parity of rows, so that each query is cut
    frames = [frame.assign(qid=ids.astype(kind)).iloc[k:1400:2] for k, kind in enumerate(kinds)]
    for k, part in enumerate(frames):
        part.to_parquet(tmp_path / f"part-{k}.parquet")
    rows = pd.concat([part.astype({"qid": int}) for part in frames])
    one = on_one_machine(rows[NAMES].to_numpy(), rows["label"].to_numpy(), rows["qid"].to_numpy())
    for X in (list(map(part_of, frames)), str(tmp_path / "*.parquet")):
        for groups in ("refuse", "mend"):
            refused("query -1", ranker(client, groups=groups).fit, X)
        model = ranker(client, groups="shuffle").fit(X)
        assert model.n_queries_ == one.n_queries_
        assert model.fit_.primal == nearly(one.fit_)


def test_evaluation_with_partitions_without_rows(client, data):
    columns = (data.X, data.y, data.qid)
    X, y, qid = (da.from_array(each, chunks=((720, 0, 720), *each.shape[1:])) for each in columns)
    for scale in ("zscore", "minmax", "query-zscore"):
        model = ranker(client, scale=scale).fit(X, y, qid=qid)
        found = model.evaluate(X, y, qid=qid, metrics=["map"])["map"]
        assert found.mean == pytest.approx(
            evaluate("map", data.y, model.to_local().predict(data.X, qid=data.qid), qid=data.qid).mean
        )


def test_files_of_whole_queries_are_not_cut_by_their_groups_of_rows(client, data, frame, local, tmp_path):
    path = write_tables(frame, tmp_path, WHOLE)
    for file in tmp_path.glob("*.parquet"):
        pd.read_parquet(file).to_parquet(file, row_group_size=50)
    same_optimum(ranker(client).fit(path), local, data)


def test_weights_of_rows_are_those_of_one_machine(client, data, frame):
    weight = np.random.default_rng(0).random(data.n_rows)
    ddf = dd.from_pandas(frame.assign(w=weight), npartitions=4)
    model = ranker(client, groups="mend").fit(ddf, "label", qid="qid", sample_weight="w")
    one = on_one_machine(data.X, data.y, data.qid, sample_weight=weight)
    assert model.feature_names_in_.tolist() == NAMES
    assert model.fit_.primal == nearly(one.fit_)


@pytest.mark.filterwarnings("ignore:.*quer.*:UserWarning")
@pytest.mark.parametrize("loss", ["map", "pairs"])
def test_queries_without_a_constraint_change_no_default_fit(loss, client, frame):
    empty = frame["qid"] % 5 < 3
    rows = frame.assign(
        label=np.where(empty, 0.0, frame["label"]), w=np.where(empty, 4.0, 1.0 + frame["qid"] % 2)
    )
    options = {"loss": loss, "C": None, "groups": "mend"}
    both = [
        ranker(client, **options).fit(
            dd.from_pandas(part, npartitions=3), "label", qid="qid", sample_weight="w"
        )
        for part in (rows, rows[~empty])
    ]
    assert both[0].n_uninformative_ > both[1].n_uninformative_
    assert both[0].fit_.primal == nearly(both[1].fit_)
    one = StructuralRanker(loss).fit(rows[NAMES], rows["label"], qid=rows["qid"], sample_weight=rows["w"])
    np.testing.assert_allclose(both[0].fit_.C, one.fit_.C, rtol=1e-12)


@pytest.mark.parametrize(
    "options", [{"loss": "pairs"}, {"loss": "ndcg@5"}, {"positive": True}, {"scale": "query-zscore"}]
)
def test_other_options(options, client, data, frame):
    model = fitted(client, frame, 4, C=3.0, **options)
    one = StructuralRanker(**{"loss": "map", "C": 3.0, "tol": TOL, **options})
    one.fit(data.X, data.y, qid=data.qid)
    assert model.fit_.primal == nearly(one.fit_)
    scores = model.predict(dd.from_pandas(frame, npartitions=1), qid="qid").compute(scheduler="sync")
    np.testing.assert_allclose(
        scores, model.to_local().predict(frame[NAMES], qid=data.qid), rtol=1e-5, atol=1e-7
    )


@pytest.mark.parametrize("processes", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_loss_of_ones_own(processes, new_cluster, frame):
    """Classes of the user's script, which no worker can import, travel with the tasks."""
    from structsvm.oracles.average_precision import AveragePrecision

    class Bound:
        exact, query_weights = True, None

        def __init__(self, y, offsets):
            self.inner = AveragePrecision().bind(y, offsets)
            self.informative = self.inner.informative

        def separate(self, scores, first, last, loss, coef):
            self.inner.separate(scores, first, last, loss, coef)

    class Own:
        def bind(self, y, offsets):
            return Bound(y, offsets)

    ddf = dd.from_pandas(frame, npartitions=4)
    with new_cluster(1, processes=processes, protocol="tcp") as client:
        own, built_in = (
            ranker(client, loss=loss, groups="mend").fit(ddf, "label", qid="qid") for loss in (Own(), "map")
        )
    np.testing.assert_array_equal(own.coef_, built_in.coef_)
    assert own.fit_.dual == built_in.fit_.dual


@pytest.mark.parametrize("scale", ["minmax", "zscore"])
def test_scaling_over_all_rows_is_that_of_one_machine(scale, client, data, frame, tmp_path):
    """Features whose scale varies by partition are scaled by the statistics of all rows."""
    moved = frame.assign(
        f0=frame["f0"] + (np.arange(1440) // 100).astype("f4"), f1=1e3 * frame["f1"], f4=np.float32(7.0)
    )
    one = StructuralRanker("map", C=10.0, tol=1e-6, scale=scale)
    one.fit(moved[NAMES], moved["label"], qid=moved["qid"])
    path = write_tables(moved, tmp_path, CUTTING)
    model = ranker(client, tol=1e-6, scale=scale, groups="mend").fit(path)
    np.testing.assert_allclose(model.scaler_.shift_, one.scaler_.shift_, rtol=1e-12, atol=0)
    np.testing.assert_allclose(model.scaler_.scale_, one.scaler_.scale_, rtol=1e-12, atol=0)
    assert model.fit_.primal == pytest.approx(one.fit_.primal, rel=2e-6)
    # 1/2 |w - v|^2 <= primal(w) - optimum: each is within the square root of twice its gap of the optimum
    distance = sum(np.sqrt(2 * (fit.primal - fit.dual)) for fit in (model.fit_, one.fit_))
    assert np.linalg.norm(model.coef_ - one.coef_) <= distance
    assert model.coef_[4] == 0.0
    rows = sum(each["rows"] for each in model.memory_.values())
    assert rows == (2 * 5 * 4 + 8) * data.n_rows  # read and scaled
    model.to_local().save(tmp_path / "m.npz")
    expected = structsvm.load(tmp_path / "m.npz").predict(moved[NAMES])
    lazy = model.predict(dd.from_pandas(moved, npartitions=3)).compute(scheduler="sync").to_numpy()
    np.testing.assert_allclose(lazy, expected, rtol=1e-5, atol=1e-7)  # one of them in float32
    np.testing.assert_allclose(np.concatenate(list(model.score_files(path))), expected, rtol=1e-5, atol=1e-7)
    found = model.evaluate(path, metrics=["map"])["map"]
    np.testing.assert_allclose(
        found.per_query, evaluate("map", data.y, expected, qid=data.qid).per_query, rtol=1e-9
    )


def test_C_by_cross_validation(client, data, frame):
    """Folds consist of queries, whatever the partitions; values are those of training on the other folds."""
    Cs = [0.1, 10.0]
    found = []
    for n in (2, 7):
        ddf = dd.from_pandas(frame, npartitions=n)
        model = DaskStructuralRankerCV("map", Cs, cv=3, tol=TOL, client=client, groups="mend")
        found.append(model.fit(ddf, "label", qid="qid"))
    for model in found:
        assert model.scores_.shape == (120, 2)
        assert model.C_ == model.fit_.C == Cs[int(np.argmax(model.scores_.mean(axis=0)))]
    np.testing.assert_allclose(found[0].scores_.mean(axis=0), found[1].scores_.mean(axis=0), atol=5e-3)

    from structsvm.dask.rows import _folds

    folds = _folds(data.query_ids, (3, 0))
    assert np.bincount(folds).min() > 20
    assert not np.array_equal(folds, _folds(data.query_ids, (3, 1)))
    for fold in range(3):
        kept, out = data.select(folds != fold), data.select(folds == fold)
        one = StructuralRanker("map", C=10.0, tol=1e-6).fit(kept.X, kept.y, qid=kept.qid)
        assert found[0].scores_[folds == fold, 1].mean() == pytest.approx(
            one.score(out.X, out.y, qid=out.qid), abs=0.02
        )
    refused("cv=1: expected an integer >= 2", DaskStructuralRankerCV(cv=1, client=client).fit, "none")
    refused("Cs=\\[\\]: expected a sequence", DaskStructuralRankerCV(Cs=[], client=client).fit, "none")


def test_csr_blocks(client, data):
    X = data.X.astype(float)
    X[X < 0.5] = 0.0
    rows = slice(0, 360), slice(360, 1440)
    parts = [delayed((sparse.csr_matrix(X[r]), data.y[r], data.qid[r])) for r in rows]
    assert ranker(client).fit(parts).fit_.primal == nearly(on_one_machine(X, data.y, data.qid).fit_)
    with pytest.raises(BadInput, match=r"partition [01]: expected dense rows to scale, got a sparse matrix"):
        ranker(client, scale="zscore").fit(parts)


def test_without_a_client_a_cluster_of_threads_serves(data):
    X, y, qid = (da.from_array(a, chunks=(720, *a.shape[1:])) for a in (data.X, data.y, data.qid))
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        model = DaskStructuralRanker("map", C=1.0).fit(X, y, qid=qid)
    assert model.fit_.converged


def test_the_callback_and_interrupts(client, frame):
    seen = []
    with pytest.warns(ConvergenceWarning, match="was stopped by the callback"):
        fitted(client, frame, 4, callback=lambda p: seen.append(p) or len(seen) == 2)
    assert [p.n_passes for p in seen] == [1, 2]

    def interrupt(progress):
        if progress.n_passes == 2:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="was stopped"):
        model = fitted(client, frame, 4, callback=interrupt)
    assert np.isfinite(model.fit_.primal)


def frames_of(frame, *changes):
    """Return two partitions, the second of which is changed."""
    parts = []
    for k, rows in enumerate((frame.iloc[:360], frame.iloc[360:])):
        columns = {"X": rows[NAMES], "y": rows["label"], "qid": rows["qid"]}
        if k:
            for change in changes:
                columns.update(change(columns))
        parts.append(delayed((columns["X"], columns["y"], columns["qid"])))
    return parts


def at(values, row, value, kind=None):
    changed = values.copy() if kind is None else values.astype(kind)
    changed.iloc[row] = value
    return changed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: {"X": c["X"].assign(f2=at(c["X"]["f2"], 7, np.nan))}, r"1: X: row 7, column 'f2'.*NaN"),
        (lambda c: {"X": c["X"].assign(f2="x")}, r"partition 1: X: expected numbers in the column 'f2'"),
        (lambda c: {"X": c["X"][["f0", "f1"]]}, "partition 1: expected 5 features, as in partition 0, got 2"),
        (lambda c: {"X": c["X"][NAMES[::-1]]}, "expected the columns of partition 0 in their order"),
        (lambda c: {"y": c["y"].iloc[1:]}, r"partition 1: y: expected 1080 values"),
        (lambda c: {"y": at(c["y"], 3, np.nan, float)}, r"1: y\[3\]: expected a finite number, got nan"),
        (lambda c: {"qid": c["qid"].astype(str)}, "partition 1: expected query ids that are integers"),
        (lambda c: {"qid": at(c["qid"], 3, np.nan, float)}, r"1: qid\[3\]: expected an int or a string"),
        (
            lambda c: {"qid": at(c["qid"], 3, np.nan, "category")},
            r"1: qid\[3\]: expected .*, got nan",
        ),
        (lambda c: {"qid": None}, "partition 1: qid: expected the query of each row, got none"),
        (lambda c: {"y": None}, "partition 1: y: expected one number per row, got none"),
    ],
)
def test_bad_partitions_are_named(change, message, client, frame):
    refused(message, ranker(client).fit, frames_of(frame, change))


def test_ids_that_partitions_would_write_differently_are_refused(client, frame):
    """In one table, a column with ``7.0`` and ``a`` keeps ``7.0``; a partition that has only ``7.0`` would write 7."""
    text = frame.assign(qid=frame["qid"].astype(float).astype(str))
    other = text.iloc[360:].assign(qid=lambda rows: [*rows["qid"].iloc[:-360], *["a"] * 360])
    said = r"partition 1: expected query ids as integers, as '\d+' in partition 0, got '\d+\.0'"
    refused(said, ranker(client).fit, [part_of(text.iloc[:360]), part_of(other)])
    assert ranker(client).fit([part_of(text.iloc[:360]), part_of(text.iloc[360:])]).n_queries_ == 120


def test_what_is_taken_as_it_is(client, data, frame):
    """Accept duplicate indices, types that vary by partition, categories, and partitions with one row or none."""
    odd = frames_of(
        frame,
        lambda c: {"X": c["X"].astype(np.float64).set_axis([0] * 1080)},
        lambda c: {"qid": c["qid"].astype("category"), "y": c["y"].astype("Int64")},
    )
    model = ranker(client).fit([*odd, part_of(frame.iloc[:0]), part_of(frame.iloc[:1].assign(qid=100_000))])
    assert model.n_partitions_ == 3
    assert model.n_queries_ == 121
    assert model.n_uninformative_ == 1
    X, y, qid = np.vstack([data.X, data.X[:1]]), np.append(data.y, data.y[0]), np.append(data.qid, 100_000)
    assert model.fit_.primal == nearly(on_one_machine(X, y, qid).fit_)


@pytest.mark.parametrize("kind", ["str", "category"])
def test_ids_that_are_text(kind, client, data, frame, local):
    text = frame.assign(qid=frame["qid"].map("{:04d}".format).astype(kind))
    same_optimum(fitted(client, text, 7), local, data)


def test_features_are_the_columns_named(client, data, frame, local, tmp_path):
    """Columns of frames and files are selected by name; errors name the argument to change."""
    frame, path = frame.assign(title="text"), tmp_path / "part.parquet"
    wide = dd.from_pandas(frame, npartitions=1)
    model = ranker(client).fit(wide, "label", qid="qid", features=NAMES)
    same_optimum(model, local, data)
    assert model.feature_names_in_.tolist() == NAMES
    frame.to_parquet(path)
    same_optimum(ranker(client).fit(path, features=NAMES), local, data)
    for X, y, options, message in (
        (path, None, {}, r"numbers in the column 'title', got .*; name the columns .* with features="),
        (path, "grade", {}, r"expected a column 'grade' for the label, .*; name it with y="),
        (wide, "label", {"qid": "qid", "features": ["f9"]}, "features: expected columns of X, got 'f9'"),
        (
            da.from_array(data.X),
            None,
            {"features": NAMES},
            "features: expected none, because only a DataFrame",
        ),
    ):
        refused(message, ranker(client).fit, X, y, **options)


def test_unknown_divisions(client, data, frame, local):
    ddf = dd.from_pandas(frame, npartitions=4).clear_divisions()
    X, y, qid = ddf[NAMES], ddf["label"], ddf["qid"]
    for given in ((ddf, "label", "qid"), (X, y, qid)):
        same_optimum(ranker(client, groups="mend").fit(*given[:2], qid=given[2]), local, data)
    with pytest.raises(BadInput, match="y: expected the 4 partitions of X, got 3"):
        ranker(client).fit(X, dd.from_pandas(frame, npartitions=3)["label"], qid=qid)


def test_bad_files_are_named(client, frame, tmp_path):
    path = write_tables(frame, tmp_path, WHOLE)
    whole = (tmp_path / "part-1.parquet").read_bytes()
    (tmp_path / "part-1.parquet").write_bytes(whole[: len(whole) // 2])
    refused(r"part-1.parquet: expected a Parquet file, got one that pyarrow", ranker(client).fit, path)
    (tmp_path / "part-1.parquet").write_bytes(whole)
    damaged = bytearray(whole)
    damaged[100 : len(whole) // 3] = bytes(len(whole) // 3 - 100)
    (tmp_path / "part-2.parquet").write_bytes(bytes(damaged))
    refused(r"part-2.parquet: ", ranker(client).fit, path)
    frame.iloc[960:].drop(columns="f1").to_parquet(tmp_path / "part-2.parquet")
    refused(r"part-2.parquet: expected the 5 features of .*got no column 'f1'", ranker(client).fit, path)
    twice = [tmp_path / f"part-{i}.parquet" for i in (0, 1, 1)]
    refused(r"part-1.parquet: expected each file once, got it twice; leave one", ranker(client).fit, twice)
    refused(
        "expected a file, a folder of files or a pattern", ranker(client).fit, str(tmp_path / "none-*.txt")
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": 0}, "C=0: expected"),
        ({"groups": "ignore"}, "groups='ignore': expected one of 'refuse', 'mend', 'shuffle'"),
        ({"scale": "percentile"}, "scale='percentile': expected one of"),
        ({"solver": "frank_wolfe"}, "solver='frank_wolfe'"),
        ({"timeout": 0}, "timeout=0: expected"),
        ({"loss": "mpa"}, "mpa"),
        ({"client": "tcp://x"}, "client: expected a distributed.Client"),
    ],
)
def test_bad_options(options, message, client):
    rejected(message, DaskStructuralRanker(**{"client": client, **options}).fit, "none.parquet")


def test_invalid_inputs_are_refused(client, data, frame):
    ddf, rows = dd.from_pandas(frame, npartitions=2), da.from_array(data.X, chunks=(720, 5))
    shorter, ids = da.from_array(data.y[1:], chunks=720), da.from_array(data.qid, chunks=720)
    empty = [delayed((data.X[:0], data.y[:0], data.qid[:0]))]
    for X, y, qid, options, message in (
        (frame, frame["label"], frame["qid"], {}, r"expected a dask DataFrame or Array.*got DataFrame"),
        (ddf, "grade", "qid", {}, "expected a column of X, got 'grade'"),
        (ddf, frame["label"], "qid", {}, "y: expected a dask Series"),
        (ddf, "label", "qid", {"relevance": 9.0, "groups": "mend"}, "no query carries a constraint"),
        (empty, None, None, {}, "expected rows, got only empty partitions"),
        (rows, shorter, ids, {}, "y: expected 1440 values, one for each row of X, got 1439"),
    ):
        refused(message, ranker(client, **options).fit, X, y, qid=qid)


def test_a_refused_fit_leaves_the_model_as_it_was(client, frame):
    model = fitted(client, frame, 2)
    coef = model.coef_
    with pytest.raises(BadInput):
        model.fit(frames_of(frame, lambda c: {"y": None}))
    assert model.coef_ is coef


def test_rows_that_cannot_fit_are_refused_before_they_are_read(client, frame, tmp_path, monkeypatch):
    from structsvm.dask import cluster

    path = write_tables(frame, tmp_path, WHOLE)
    limits = {"tcp://one": 10_000.0, "tcp://two": 10_000.0}
    monkeypatch.setattr(cluster, "memory_limits", lambda client: limits)
    with pytest.raises(
        cluster.ClusterError, match=r"workers have 0.0 GB together; use more memory, or stores"
    ):
        ranker(client).fit(path)


def test_nothing_stays_on_the_cluster(client, frame):
    def keys():
        return {key for held in client.has_what().values() for key in held}

    before = keys()  # of errors that were kept
    fitted(client, frame, 7)
    end = time.monotonic() + 120
    while not keys() <= before:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_measure_that_no_ranking_changes_is_refused(client, data):
    from dask import array as da

    X, qid = (da.from_array(each, chunks=(480, *each.shape[1:])) for each in (data.X, data.qid))
    y = da.from_array(1.0 + np.random.default_rng(0).integers(0, 5, data.n_rows), chunks=480)
    for measure in ("map", "roc"):
        model = DaskStructuralRankerCV("ndcg@10", [0.1, 1.0], cv=2, scoring=measure, client=client)
        rejected("same value for all; choose by pairs", model.fit, X, y, qid=qid)
