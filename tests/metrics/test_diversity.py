"""Diversity measures: hand-computed figures, and ndeval on the Web track's judgments and runs."""

import numpy as np
import pytest

from structsvm.metrics.diversity import alpha_ndcg, subtopic_recall, weighted_subtopic_loss
from structsvm.readers.qrels import read_qrels
from structsvm.readers.runs import read_run
from tests.refusing import rejected

FIGURE = np.array([[1, 1, 1], [0, 1, 1], [0, 0, 1], [0, 0, 0]])


def test_weights_of_figure_4_4():
    for missed, rows in ((1, []), (0, [0]), (1 / 6, [1]), (1 / 2, [2, 3]), (1 / 6, [2, 1])):
        assert weighted_subtopic_loss([FIGURE], [rows])[0] == pytest.approx(missed)
    weights = [1 - weighted_subtopic_loss([np.eye(3)[[0, 1, 1, 2, 2, 2]]], [[d]])[0] for d in (0, 1, 3)]
    np.testing.assert_allclose(weights, [1 / 6, 1 / 3, 1 / 2])
    assert subtopic_recall([FIGURE], [[1]])[0] == pytest.approx(2 / 3)


def test_alpha_ndcg_by_hand():
    ideal = 3 + (0.5 + 0.5) / np.log2(3)
    assert alpha_ndcg([FIGURE], [[2, 0]])[0] == pytest.approx((1 + 2.5 / np.log2(3)) / ideal)
    assert alpha_ndcg([FIGURE], [[0, 1]])[0] == pytest.approx(1)
    assert alpha_ndcg([FIGURE], [[0, 1]], alpha=1)[0] == 1
    # without a penalty it is NDCG with the number of subtopics as gain
    gains = FIGURE.sum(axis=1)
    expected = (gains[2] + gains[1] / np.log2(3)) / (3 + 2 / np.log2(3))
    assert alpha_ndcg([FIGURE], [[2, 1]], alpha=0)[0] == pytest.approx(expected)


def test_policies():
    nobody = np.column_stack((FIGURE, np.zeros(4)))
    for measure in (weighted_subtopic_loss, subtopic_recall, alpha_ndcg):
        assert measure([nobody], [[1, 2]]) == measure([FIGURE], [[1, 2]])
        assert measure([FIGURE * 3.5], [[1, 2]]) == measure([FIGURE], [[1, 2]])
        assert np.isnan(measure([np.zeros((4, 2)), np.zeros((4, 0))], [[1], []])).all()
        for labels, chosen, message in (
            ([FIGURE], [[4]], "0 to 3"),
            ([FIGURE], [[1, 1]], "once"),
            ([FIGURE], [[0.5]], "document indices"),
            ([FIGURE], [], "one list for each"),
            ([FIGURE[0]], [[0]], "n_documents, n_subtopics"),
            ([FIGURE * np.nan], [[0]], "finite"),
            ([[[1, 0], [1]]], [[0]], r"labels\[0\]: expected rows of equal length"),
        ):
            rejected(message, measure, labels, chosen)
    for measure in (subtopic_recall, alpha_ndcg):
        for k in (0, 1.5, True, "2"):
            rejected("integer >= 1; None means the whole list", measure, [FIGURE], [[0]], k=k)
    for alpha in (2, np.nan, "half"):
        rejected("alpha", alpha_ndcg, [FIGURE], [[0]], alpha=alpha)
    with pytest.raises(TypeError, match="one matrix for each candidate set"):
        subtopic_recall(None, [[0]])


@pytest.mark.parametrize("name", ["indri-ql-catb-filtered", "indri-rm-cata"])
def test_agrees_with_ndeval(name, shared_data):
    pyndeval = pytest.importorskip("pyndeval")
    folder = shared_data("trec_web2012_diversity")
    qrels = read_qrels(folder / "qrels.ndeval.txt.gz", subtopics=True)
    run = read_run(folder / "runs" / f"{name}.txt.gz", depth=20)
    topic_of = np.repeat(qrels.topics, np.diff(qrels.offsets))
    ranked = {t: d.tolist() for t, d in zip(run.topics, np.split(run.docid, run.offsets[1:-1]), strict=True)}
    columns = zip(topic_of, qrels.subtopic, qrels.docid, qrels.grades.astype(int), strict=True)
    judgments = [pyndeval.SubtopicQrel(t, s, d, int(g)) for t, s, d, g in columns]
    ranking = [
        pyndeval.ScoredDoc(t, d, float(-i)) for t, found in ranked.items() for i, d in enumerate(found)
    ]
    measures = ["alpha-nDCG@5", "alpha-nDCG@20", "strec@5", "strec@20"]
    theirs = pyndeval.ndeval(judgments, ranking, measures=measures)
    compared = 0
    for t, found in ranked.items():
        own = topic_of == t
        if not own.any() or t not in theirs:
            continue
        subtopics = sorted(set(qrels.subtopic[own]))
        documents = sorted({*found, *qrels.docid[own]}, reverse=True)  # as ndeval breaks ties
        row = {d: i for i, d in enumerate(documents)}
        labels = np.zeros((len(documents), len(subtopics)))
        for s, d, g in zip(qrels.subtopic[own], qrels.docid[own], qrels.grades[own], strict=True):
            labels[row[d], subtopics.index(s)] = g
        if not (labels > 0).any():
            continue
        chosen = [[row[d] for d in found]]
        for k in (5, 20):
            assert alpha_ndcg([labels], chosen, k)[0] == pytest.approx(theirs[t][f"alpha-nDCG@{k}"], abs=1e-6)
            assert subtopic_recall([labels], chosen, k)[0] == pytest.approx(theirs[t][f"strec@{k}"], abs=1e-6)
        compared += 1
    assert compared >= 40
