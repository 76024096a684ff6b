"""SVM-div on made candidate sets: Figs 4.5, 4.6 and 4.7 of Yue's thesis, and a variant with background noise.

The thesis says little of its generator. Here: 100 candidate sets of 100 documents of 300 words over 5,000; a set has 25
subtopics of popularity 1/r^0.7, each with its own distribution of words, Dirichlet(50 x Zipf(1)); a document mixes 1 to
3 subtopics by Dirichlet(1). With noise a share U(0, 0.6) of a document's words comes from the Zipf background. 15 sets
train, 10 choose C, 75 test. p is Wilcoxon's over the test queries of all seeds.
"""

from __future__ import annotations

import numpy as np
from _diversity_common import against
from _online_common import Experiment
from scipy import sparse
from sklearn.base import clone

from structsvm import baselines
from structsvm.candidates import CandidateSet
from structsvm.estimators.diversity import SVMDiv
from structsvm.features.words import Level
from structsvm.metrics import weighted_subtopic_loss

N_WORDS, N_TOPICS, LENGTH = 5000, 25, 300
TRAIN, VALIDATION, TOTAL = 15, 25, 100


def make(n_sets: int, seed: int, *, noise: float = 0.0, n_documents: int = 100):
    """Candidate sets and who covers what."""
    rng = np.random.default_rng(seed)
    zipf = 1 / np.arange(1, N_WORDS + 1)
    zipf /= zipf.sum()
    popularity = 1 / np.arange(1, N_TOPICS + 1) ** 0.7
    popularity /= popularity.sum()
    sets, labels = [], []
    for _ in range(n_sets):
        topics = rng.dirichlet(50 * zipf, size=N_TOPICS)
        covers = np.zeros((n_documents, N_TOPICS), dtype=bool)
        counts = np.empty((n_documents, N_WORDS))
        for d in range(n_documents):
            own = rng.choice(N_TOPICS, size=rng.integers(1, 4), replace=False, p=popularity)
            covers[d, own] = True
            words = rng.dirichlet(np.ones(own.size)) @ topics[own]
            share = rng.uniform(0, noise) if noise else 0.0
            total = np.cumsum((1 - share) * words + share * zipf)
            drawn = np.searchsorted(total, rng.random(LENGTH) * total[-1])
            counts[d] = np.bincount(np.minimum(drawn, N_WORDS - 1), minlength=N_WORDS)
        sets.append(CandidateSet(sparse.csr_matrix(counts)))
        labels.append(covers)
    return sets, labels


def fit_and_test(model, sets, labels, Cs, n_train=TRAIN):
    """Loss on each test query, of the C that is best on the validation sets."""
    validation, test = slice(TRAIN, VALIDATION), slice(VALIDATION, TOTAL)
    fits = clone(model).path(sets[:n_train], labels[:n_train], Cs)
    losses = [weighted_subtopic_loss(labels[validation], m.predict(sets[validation])).mean() for m in fits]
    return weighted_subtopic_loss(labels[test], fits[int(np.argmin(losses))].predict(sets[test]))


def by_k(run, title, noise, seeds, ks, Cs, levels):
    """Fig. 4.7: loss of every method against K."""
    run.section(title)
    test = slice(VALIDATION, TOTAL)
    losses: dict[str, list[list]] = {}
    for seed in seeds:
        sets, labels = make(TOTAL, seed, noise=noise)
        chosen = {
            name: method.predict(sets[test], ks[-1])  # the greedy ones choose the first K alike
            for name, method in (
                ("random", baselines.RandomChoice(random_state=seed)),
                ("unweighted coverage", baselines.UnweightedCoverage()),
                ("Essential Pages", baselines.EssentialPages()),
            )
        }
        chosen["clairvoyant"] = baselines.Clairvoyant(ks[-1]).predict(sets[test], labels=labels[test])
        for j, k in enumerate(ks):
            found = {
                n: weighted_subtopic_loss(labels[test], [r[:k] for r in rows]) for n, rows in chosen.items()
            }
            found["SVM-div"] = fit_and_test(SVMDiv(k=k, levels=levels, n_jobs=run.jobs), sets, labels, Cs)
            for name, values in found.items():
                losses.setdefault(name, [[] for _ in ks])[j].append(values)
        print(f"  seed {seed} done", flush=True)
    pooled = {name: [np.concatenate(v) for v in values] for name, values in losses.items()}
    names = ("SVM-div", "unweighted coverage", "Essential Pages", "random", "clairvoyant")
    rows, reached = [], {"unweighted coverage": [], "Essential Pages": []}
    for j, k in enumerate(ks):
        ours = pooled["SVM-div"][j]
        tests = {n: against(ours, pooled[n][j]) for n in reached}
        for n, (_, p) in tests.items():
            reached[n].append(bool(p < 0.05 and ours.mean() < pooled[n][j].mean()))
        rows.append(
            [
                k,
                *(pooled[n][j].mean() for n in names),
                *(x for w, p in tests.values() for x in (w, f"{p:.1g}")),
            ]
        )
    run.table(
        f"k_noise_{noise:g}",
        ["K", *names, "wins/ties/losses, coverage", "p, coverage", "wins/ties/losses, EP", "p, EP"],
        rows,
    )
    for n, ok in reached.items():
        good = [k for k, yes in zip(ks, ok, strict=True) if yes]
        run.say(f"SVM-div below {n} with p < 0.05 at K = {good} of {list(ks)}.")

    def draw(ax):
        for name, style in zip(names, ("o-", "s--", "d:", "^-.", "-"), strict=True):
            ax.plot(ks, [v.mean() for v in pooled[name]], style, label=name, ms=3, lw=1)
        ax.set_xlabel("K", fontsize=7)
        ax.set_ylabel("weighted subtopic loss", fontsize=7)

    run.plot(title, draw)


def by_training_size(run, seeds, sizes, Cs, levels):
    """Fig. 4.5."""
    run.section("Fig. 4.5: loss at K = 5 by the number of training sets")
    means = np.empty((len(seeds), len(sizes)))
    for i, seed in enumerate(seeds):
        sets, labels = make(TOTAL, seed)
        for j, n in enumerate(sizes):
            model = SVMDiv(k=5, levels=levels, n_jobs=run.jobs)
            means[i, j] = fit_and_test(model, sets, labels, Cs, n).mean()
    rows = [[n, m[:].mean(), m.min(), m.max()] for n, m in zip(sizes, means.T, strict=True)]
    run.table("training_size", ["training sets", "loss", "least seed", "worst seed"], rows)

    def draw(ax):
        ax.errorbar(
            sizes, means.mean(0), [means.mean(0) - means.min(0), means.max(0) - means.mean(0)], fmt="o-"
        )
        ax.set_xlabel("training sets", fontsize=7)
        ax.set_ylabel("test loss at K = 5", fontsize=7)

    run.plot("Fig. 4.5: training size", draw)


def by_C(run, n_documents, n_sets, Cs, levels):
    """Fig. 4.6: training loss, with several ways to predict and to train."""
    run.section("Fig. 4.6: training loss against C, with greedy and with exact prediction")
    sets, labels = make(n_sets, run.seed, n_documents=n_documents)
    rivals = baselines.Clairvoyant(5).predict(sets, labels=labels)
    line = weighted_subtopic_loss(labels, rivals).mean()
    trainings = {
        "swap": {"separation": "swap"},
        "greedy": {"separation": "greedy"},
        "benefits >= 0": {"positive": "benefits"},
    }
    columns, curves = [], {}
    for name, options in trainings.items():
        fits = SVMDiv(k=5, levels=levels, n_jobs=run.jobs, **options).path(sets, labels, Cs)
        for how in ("greedy", "swap", "exact"):
            curves[name, how] = [
                weighted_subtopic_loss(labels, m.set_params(prediction=how).predict(sets)).mean()
                for m in fits
            ]
            columns.append(f"{name}; {how}")
        print(f"  {name} done", flush=True)
    rows = [[f"{C:g}", *(c[j] for c in curves.values()), line] for j, C in enumerate(Cs)]
    run.table("training_loss", ["C", *columns, "clairvoyant"], rows)
    run.say(
        f"{n_sets} sets of {n_documents} documents. Columns name the search in training, then the one in prediction; "
        "the integer programme of exact prediction limits the size."
    )
    last = {how: curves["swap", how][-1] for how in ("greedy", "swap", "exact")}
    share = (last["greedy"] - last["exact"]) / max(last["greedy"] - line, 1e-12)
    run.record["share_search_error"] = float(share)
    run.say(
        f"At the largest C, of the gap between greedy prediction ({last['greedy']:.3f}) and the clairvoyant line "
        f"({line:.3f}) {share:.0%} goes with exact prediction ({last['exact']:.3f})."
    )

    def draw(ax):
        for (name, how), values in curves.items():
            if name != "greedy":
                ax.plot(
                    Cs, values, {"greedy": "-", "swap": "--", "exact": ":"}[how], label=f"{name}; {how}", lw=1
                )
        ax.axhline(line, color="k", lw=0.8, label="clairvoyant")
        ax.set_xscale("log")
        ax.set_xlabel("C", fontsize=7)
        ax.set_ylabel("training loss", fontsize=7)

    run.plot("Fig. 4.6: C and the search in prediction", draw)


def main() -> None:
    run = Experiment("diversity_synthetic", __doc__)
    seeds = range(run.seed, run.seed + (5 if run.quick else 8))
    ks = [1, 2, 3, 5, 7, 10] if run.quick else list(range(1, 11))
    Cs = [0.1, 1.0, 10.0] if run.quick else np.logspace(-2, 3, 11).tolist()
    levels = [Level.appears()]
    by_k(run, "Fig. 4.7: loss against K", 0.0, seeds, ks, Cs, levels)
    by_k(run, "Fig. 4.7 with background words", 0.6, seeds, ks, Cs, levels)
    by_training_size(run, seeds[:3] if run.quick else seeds, [1, 2, 5, 10, 15], Cs, levels)
    if run.quick:
        by_C(run, 25, 6, [0.1, 1.0, 10.0, 100.0], levels)
    else:
        by_C(run, 60, 15, np.logspace(-2, 4, 7).tolist(), levels)
    run.save()


if __name__ == "__main__":
    main()
