"""Diversity measures: hand-computed figures, and ndeval on the Web track's judgments and runs."""

import numpy as np
import pytest

from structsvm import CandidateSet
from structsvm.common.subtopic_gain import COVERAGE_LOSSES, SubtopicGain
from structsvm.estimators.baselines import Clairvoyant
from structsvm.features import Level, WordFeatures
from structsvm.metrics import alpha_ndcg, subtopic_recall, weighted_subtopic_loss
from structsvm.oracles.coverage import CoverageProblem
from structsvm.readers import read_qrels, read_run
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


def missed(loss, labels, chosen, k, alpha):
    """Return a loss by its definition, with sums over sets of subtopics."""
    covers = [{s for s in range(labels.shape[1]) if row[s]} for row in labels]
    weight = {s: labels[:, s].sum() if loss == "weighted" else 1 for s in set().union(*covers)}
    if loss != "alpha_ndcg":
        return 1 - sum(weight[s] for s in set().union(*(covers[d] for d in chosen[:k]))) / sum(
            weight.values()
        )

    def gain(d, above):
        return sum((1 - alpha) ** sum(s in covers[a] for a in above) for s in covers[d])

    def total(ranking):
        return sum(gain(d, ranking[:i]) / np.log2(i + 2) for i, d in enumerate(ranking[:k]))

    ideal = []
    while len(ideal) < min(k, len(covers)):
        rest = [d for d in range(len(covers)) if d not in ideal]
        ideal.append(max(rest, key=lambda d: round(gain(d, ideal), 9)))
    return 1 - total(chosen) / total(ideal)


@pytest.mark.parametrize("loss", COVERAGE_LOSSES)
def test_measures_losses_and_choices_agree_with_the_definition(loss):
    """The law of the value of a set: the measure, its gains, the training loss and the choice that knows the labels."""
    rng = np.random.default_rng(3)
    features, n_cases = WordFeatures([Level.appears()], [0.0]), 0
    for _ in range(200):
        n, k, alpha = int(rng.integers(2, 10)), int(rng.integers(1, 7)), float(rng.choice([0, 0.3, 0.5, 1]))
        labels = rng.random((n, int(rng.integers(1, 6)))) < rng.choice([0.2, 0.5])
        chosen = rng.permutation(n)[: rng.integers(1, n + 1)].tolist()
        gain = SubtopicGain(labels.astype(float), loss, alpha=alpha)
        if gain.empty:
            continue
        n_cases += 1
        expected = missed(loss, labels, chosen, k, alpha)
        measured = {
            "weighted": lambda m, c, k, a: weighted_subtopic_loss(m, [c[0][:k]]),
            "unweighted": lambda m, c, k, a: 1 - subtopic_recall(m, c, k),
            "alpha_ndcg": lambda m, c, k, a: 1 - alpha_ndcg(m, c, k, alpha=a),
        }[loss]([labels], [chosen], k, alpha)
        assert measured == pytest.approx([expected], abs=1e-12)
        first = chosen[:k]
        assert 1 - gain.value(first, k) == pytest.approx(expected, abs=1e-12)
        # the gains of a ranking add up to its value
        added = [gain.added(first[:i], k)[d] for i, d in enumerate(first)]
        assert sum(added) == pytest.approx(gain.value(first, k), abs=1e-9)
        usual = missed(loss, labels, first, min(k, n), 0.5)
        candidates = CandidateSet(["word"] * n)
        problem = CoverageProblem([features.coverage(candidates)], [labels], features.bins(), k, loss=loss)
        assert problem._queries[0].loss(first) == pytest.approx(usual, abs=1e-12)
        # a greedy choice, of which ties are broken by document index
        greedy = []
        while len(greedy) < min(k, n):
            lost = [np.inf if d in greedy else missed(loss, labels, [*greedy, d], n, 0.5) for d in range(n)]
            greedy.append(int(np.argmin(np.round(lost, 9))))
        [ideal] = Clairvoyant(k, loss).predict([candidates], labels=[labels])
        assert problem.targets[0].tolist() == ideal.tolist() == greedy
    assert n_cases > 150


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
    theirs = pyndeval.ndeval(
        judgments, ranking, measures=["alpha-nDCG@5", "alpha-nDCG@20", "strec@5", "strec@20"]
    )
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
