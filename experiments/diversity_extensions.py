"""Two extensions that Yue's thesis names: a pairwise-distance discriminant (4.5.1), and summarisation (4.6).

Distances: the value of a subset is the sum of a learned distance over its pairs and of a learned relevance over its
documents, instead of coverage. The value is a structured model with four methods, trained by the usual trainers.
Distances are combinations of step functions of the cosine, so a learned distance need not be linear in the cosine.

Summaries: choose five snippets whose words cover a reference, as in extractive summarisation. The reference of an
ambiguous query is the set of descriptions that people wrote to distinguish its senses. Words of the reference take the
role of subtopics, one per occurrence; the unweighted subtopic loss is then one minus ROUGE-1 recall without credit for
repetitions, and SVM-div learns this loss unchanged. The reported measure is ROUGE-1 recall itself, with counts clipped
at those of the reference (Lin 2004).

Both experiments use AMBIENT with folds of topics; C is chosen on held-out topics of each training fold.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
from _common import Experiment
from _diversity_common import against, counted, pick

from structsvm.common.candidates import CandidateSet
from structsvm.estimators import baselines
from structsvm.estimators.diversity import SVMDiv
from structsvm.features.word_counts import count_words, make_vectorizer
from structsvm.features.word_features import Level
from structsvm.metrics import weighted_subtopic_loss
from structsvm.oracles.adapter import StructuredProblem
from structsvm.readers import read_ambient
from structsvm.trainers.contract import Options
from structsvm.trainers.one_slack import one_slack

K = 5
COSINES = (0.02, 0.05, 0.1, 0.2, 0.4)


class Candidates(NamedTuple):
    """Distances of each pair, shape (n, n, n_distances), and features of each document, between 0 and 1."""

    distances: np.ndarray
    features: np.ndarray


class Choice(NamedTuple):
    """Chosen documents and, for true outputs, the labels from which the loss is computed."""

    rows: np.ndarray
    labels: np.ndarray | None = None


def candidates(one: CandidateSet) -> Candidates:
    cosines = count_words(one).cosines
    distances = np.stack([1.0 - cosines, *(cosines < c for c in COSINES)], axis=2)
    centrality = cosines.mean(axis=1)
    return Candidates(
        distances / K, np.column_stack((centrality / centrality.max(), np.linspace(1, 0, len(one))))
    )


class Distances:
    """``Psi``: the distances of all pairs chosen, summed, and the features of all documents chosen."""

    exact = False  # maximising a sum over pairs is NP-hard, so the search is greedy

    def __init__(self, k: int) -> None:
        self.k = k

    def joint_feature(self, x: Candidates, y: Choice) -> np.ndarray:
        pairs = x.distances[np.ix_(y.rows, y.rows)].sum(axis=(0, 1)) / 2
        return np.concatenate((pairs, x.features[y.rows].sum(axis=0)))

    def loss(self, y_true: Choice, y: Choice) -> float:
        """Return the loss of ``y`` minus that of the true output, which is greedy and may have a positive loss, too."""
        missed = weighted_subtopic_loss([y_true.labels] * 2, [y.rows, y_true.rows])
        return max(0.0, float(missed[0] - missed[1]))

    def argmax(self, w: np.ndarray, x: Candidates) -> Choice:
        return self._greedy(w, x, np.zeros((len(x.features), 0)), np.zeros(0))

    def loss_augmented_argmax(self, w: np.ndarray, x: Candidates, y_true: Choice) -> Choice:
        weights = y_true.labels.sum(axis=0) / y_true.labels.sum()
        return self._greedy(w, x, y_true.labels, weights)

    def _greedy(self, w: np.ndarray, x: Candidates, labels: np.ndarray, weights: np.ndarray) -> Choice:
        pairs = x.distances @ w[: x.distances.shape[2]]
        gain = x.features @ w[x.distances.shape[2] :]
        open_ = weights.copy()
        rows: list[int] = []
        for _ in range(min(self.k, len(gain))):
            total = gain - labels @ open_
            total[rows] = -np.inf
            rows.append(int(np.argmax(total)))
            gain = gain + pairs[rows[-1]]
            open_[labels[rows[-1]] > 0] = 0.0
        return Choice(np.array(rows))


def by_folds(n: int, folds: int, seed: int, fit, measure, Cs):
    """Return the loss of each held-out topic, with the best C on a held-out third of the training fold."""
    order = np.random.default_rng(seed).permutation(n).tolist()
    losses = np.empty(n)
    for fold in range(folds):
        test, train = order[fold::folds], [r for i, r in enumerate(order) if i % folds != fold]
        inside, outside = train[len(train) // 3 :], train[: len(train) // 3]
        means = [measure(fit(inside, C), outside).mean() for C in Cs]
        losses[test] = measure(fit(train, Cs[int(np.argmin(means))]), test)
    return losses


def distances(run, sets, labels, folds, Cs):
    run.section("A learned distance (4.5.1)")
    model = Distances(K)
    xs = [candidates(one) for one in sets]
    ys = [
        Choice(target, cover > 0)
        for target, cover in zip(baselines.Clairvoyant(K).predict(sets, labels=labels), labels, strict=True)
    ]
    found = {}

    def fit(rows, C):
        w = one_slack(
            StructuredProblem(model, pick(xs, rows), pick(ys, rows)), C, Options(tol=0.02, max_passes=200)
        ).w
        found["w"] = w
        return w

    def measure(w, rows):
        return weighted_subtopic_loss(pick(labels, rows), [model.argmax(w, xs[r]).rows for r in rows])

    ours = by_folds(len(sets), folds, run.seed, fit, measure, Cs)

    def loss(chosen):
        return weighted_subtopic_loss(labels, chosen)

    rivals = {
        "MMR, trade-off 0.5": loss(baselines.MMR(K).predict(sets)),
        "facility location": loss(baselines.FacilityLocation(K).predict(sets)),
        "unweighted coverage": loss(baselines.UnweightedCoverage(K).predict(sets)),
        "random": np.mean([loss(baselines.RandomChoice(K, s).predict(sets)) for s in range(50)], axis=0),
        "clairvoyant": loss(baselines.Clairvoyant(K).predict(sets, labels=labels)),
    }
    _table(run, "distances", "weighted subtopic loss", "learned distance", ours, rivals)
    w = found["w"]
    names = ["1 - cosine", *(f"cosine < {c:g}" for c in COSINES), "centrality", "rank"]
    run.table("weights", ["feature", "weight (last fold)"], list(zip(names, w.tolist(), strict=True)))


def occurrences(one: CandidateSet, reference: str) -> np.ndarray:
    """Return which document has which word of the reference, with one column per occurrence in the reference."""
    words = make_vectorizer().build_analyzer()(reference)
    own = count_words(one)
    number = {word: j for j, word in enumerate(own.vocabulary)}
    columns = [number[word] for word in words if word in number]
    return (own.text[:, columns].toarray() > 0).astype(float)


def rouge_1(texts, reference: str) -> float:
    """Return ROUGE-1 recall of extracts, the share of the reference's words that they have, with clipped counts."""
    analyze = make_vectorizer().build_analyzer()
    wanted, had = Counter(analyze(reference)), Counter(w for text in texts for w in analyze(text))
    return sum(min(count, had[word]) for word, count in wanted.items()) / max(1, wanted.total())


def summaries(run, sets, references, folds, Cs):
    run.section("Summaries (4.6)")
    labels = [occurrences(one, reference) for one, reference in zip(sets, references, strict=True)]
    words = counted(sets)

    def missed(chosen, rows):
        return np.array(
            [
                1.0 - rouge_1([sets[r].texts[d] for d in c], references[r])
                for c, r in zip(chosen, rows, strict=True)
            ]
        )

    def fit(rows, C):
        model = SVMDiv(C=C, k=K, levels=[Level.appears()], loss="unweighted", n_jobs=run.jobs)
        return model.fit(pick(words, rows), pick(labels, rows))

    ours = by_folds(
        len(sets), folds, run.seed, fit, lambda m, rows: missed(m.predict(pick(words, rows)), rows), Cs
    )
    everything = range(len(sets))
    rivals = {
        name: missed(method.predict(sets), everything)
        for name, method in (
            ("unweighted coverage", baselines.UnweightedCoverage(K)),
            ("Essential Pages", baselines.EssentialPages(K)),
            ("facility location", baselines.FacilityLocation(K)),
            ("original order", baselines.OriginalOrder(K)),
        )
    }
    random = [missed(baselines.RandomChoice(K, s).predict(sets), everything) for s in range(20)]
    rivals["random"] = np.mean(random, axis=0)
    best = baselines.Clairvoyant(K, "unweighted").predict(sets, labels=labels)
    rivals["clairvoyant"] = missed(best, everything)
    _table(run, "summaries", "1 - ROUGE-1 recall", "SVM-div, ROUGE loss", ours, rivals)


def _table(run, key, measure, name, ours, rivals):
    rows = [[name, ours.mean(), "", ""]]
    for rival, theirs in rivals.items():
        wins, p = against(ours, theirs)
        rows.append([rival, theirs.mean(), wins, f"{p:.2g}"])
    run.table(key, ["method", measure, "wins/ties/losses", "p"], rows)

    def draw(ax):
        names = [name, *rivals]
        values = [ours.mean(), *(v.mean() for v in rivals.values())]
        ax.barh(names, values, color=["C0", *["0.7"] * len(rivals)])
        ax.set_xlabel(measure, fontsize=7)

    run.plot(f"{name}: lower is better", draw)


def main() -> None:
    run = Experiment("diversity_extensions", __doc__, needs=["ambient"])
    data = read_ambient(run.data / "ambient", relevant_only=True)
    sets = [
        CandidateSet([f"{t} {s}" for t, s in zip(one.titles, one.texts, strict=True)], query=one.query)
        for one in data.sets
    ]
    folds = 4 if run.quick else 11
    Cs = [0.1, 1.0] if run.quick else np.logspace(-2, 2, 5).tolist()
    distances(run, sets, data.labels, folds, Cs)
    summaries(run, sets, [". ".join(names) for names in data.subtopics], folds, Cs)
    run.save()


if __name__ == "__main__":
    main()
