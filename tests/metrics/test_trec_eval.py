"""Agreement with trec_eval: its C code through pytrec_eval, and the outputs printed in its own test suite."""

import gzip

import numpy as np
import pytest

from structsvm.metrics import evaluate

DEPTHS = (1, 3, 5, 10, 30)
WHOLE = ("map", "recip_rank", "ndcg", "Rprec", "set_P", "set_recall", "set_F", "bpref")
CUT = ("P", "recall", "ndcg_cut", "map_cut", "success")
LEVELS = [f"iprec_at_recall_{level / 10:.2f}" for level in range(11)]


def random_case(seed):
    """Return mixed rows of queries with ties, negative grades, unjudged and unretrieved documents, and odd ids."""
    rng = np.random.default_rng(seed)
    alphabet = ["9", "10", "a", "B", "z", "é", "_", "-", "0", "ü", "\U0001f600"]
    qrels, run, rows = {}, {}, []
    for q in range(rng.integers(1, 6)):
        size = int(rng.integers(1, 40))
        docs = sorted({"".join(rng.choice(alphabet, rng.integers(1, 5))) for _ in range(size)})
        grades = rng.integers(-2, 5, len(docs)) if rng.random() < 0.7 else rng.integers(-1, 1, len(docs))
        scores = [
            lambda n: rng.normal(size=n),
            lambda n: rng.integers(-2, 3, n).astype(float),
            lambda n: 1.0 + rng.integers(0, 4, n) * 2e-8,  # equal as float32, different as float64
            lambda n: np.ones(n),
            lambda n: rng.choice([1e39, -1e39, 0.0, -0.0, 3e38], n),
        ][rng.integers(5)](len(docs))
        fate = rng.choice(["both", "unjudged", "unretrieved"], len(docs), p=[0.7, 0.15, 0.15])
        fate[0] = "both"
        grades[0] = max(grades[0], 0)  # pytrec_eval writes out of bounds if no grade of a query is >= 0
        qrels[f"q{q}"] = {d: int(g) for d, g, f in zip(docs, grades, fate, strict=True) if f != "unjudged"}
        run[f"q{q}"] = {d: float(s) for d, s, f in zip(docs, scores, fate, strict=True) if f != "unretrieved"}
        for d, g, s, f in zip(docs, grades, scores, fate, strict=True):
            known, score = f != "unjudged", -np.inf if f == "unretrieved" else s
            rows.append((f"q{q}", d, g if known else 0, score, known))
    rows = [rows[i] for i in rng.permutation(len(rows))]
    return qrels, run, [list(column) for column in zip(*rows, strict=True)]


@pytest.mark.filterwarnings("ignore:evaluate. the labels define:UserWarning")  # by chance
@pytest.mark.parametrize("level", [1, 2, 3])
def test_every_measure_equals_trec_eval_on_random_runs(level):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    measures = {*WHOLE, "iprec_at_recall", *(f"{name}.{','.join(map(str, DEPTHS))}" for name in CUT)}
    names = [*WHOLE, *LEVELS, *(f"{name}_{k}" for name in CUT for k in DEPTHS)]
    for seed in range(level * 40, level * 40 + 40):
        qrels, run, (qid, docid, grades, scores, judged) = random_case(seed)
        truth = pytrec_eval.RelevanceEvaluator(qrels, measures, relevance_level=level).evaluate(run)
        for name in names:
            result = evaluate(
                name, grades, scores, qid=qid, docid=docid, judged=judged, relevance=level, ties="docid"
            )
            expected = [truth[q][name] for q in result.query_ids]
            np.testing.assert_allclose(
                result.per_query, expected, rtol=0, atol=1e-9, err_msg=f"{name} {seed}"
            )
            assert result.mean == pytest.approx(np.mean(expected), abs=1e-9)


def read_columns(path):
    with gzip.open(f"{path}.gz", "rt") as lines:
        return [line.split() for line in lines]


def golden_rows(folder, qrels_name, run_name, depth=None):
    judged = {(q, d): int(g) for q, _, d, g in read_columns(folder / qrels_name)}
    run = {}
    for q, _, d, _, score, *_ in read_columns(folder / run_name):
        run.setdefault(q, []).append((np.float32(score), d))
    retrieved = {(q, d): s for q, docs in run.items() for s, d in sorted(docs, reverse=True)[:depth]}
    keys = sorted(judged.keys() | retrieved.keys())
    return {
        "y_true": [judged.get(key, 0) for key in keys],
        "y_score": [retrieved.get(key, -np.inf) for key in keys],
        "qid": [q for q, _ in keys],
        "docid": [d for _, d in keys],
        "judged": [key in judged for key in keys],
    }


@pytest.mark.parametrize(
    ("printed", "qrels", "run", "depth", "level", "least"),
    [
        ("out.test", "qrels.test", "results.test", None, 1, 10),
        ("out.test.a", "qrels.test", "results.test", None, 1, 39),
        ("out.test.aq", "qrels.test", "results.test", None, 1, 4 * 39),
        ("out.test.aqc", "qrels.test", "results.trunc", None, 1, 4 * 39),
        ("out.test.aqcM", "qrels.test", "results.trunc", 100, 1, 4 * 39),
        ("out.test.aql", "qrels.rel_level", "results.test", None, 2, 4 * 39),
        ("out.test.meas_params", "qrels.test", "results.test", None, 1, 4 * 7),
    ],
)
def test_printed_digits_of_trec_eval(printed, qrels, run, depth, level, least, shared_data):
    folder = shared_data("trec_eval_golden")
    rows = golden_rows(folder, qrels, run, depth)
    results, compared = {}, 0
    for line in (folder / printed).read_text().splitlines():
        name, query, value = line.split()
        if name not in WHOLE and name.rpartition("_")[0] not in CUT:
            continue
        if name not in results:
            results[name] = evaluate(name, **rows, relevance=level)
        result = results[name]
        by_query = dict(zip(result.query_ids, result.per_query, strict=True)) | {"all": result.mean}
        assert f"{by_query[query]:.4f}" == value, (name, query)
        compared += 1
    assert compared >= least
