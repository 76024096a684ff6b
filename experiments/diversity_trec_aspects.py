"""SVM-div from run scores alone: TREC 6-8 interactive aspects with Robust 2003 runs, and the subtopics of Web 2012.

The texts of these collections are not public, so the features of a document are the scores that retrieval systems gave
it. The model learns which systems to trust; it is linear and cannot represent the overlap of documents. There are two
protocols. With all candidates (the first documents of every run), relevance matters, too; with only relevant
candidates, as in the thesis, relevance plays no role and little is left to learn. Evaluation is leave-one-out on the 8
topics that the Robust track shares with the interactive track, and 10-fold on the 50 topics of Web 2012; C is chosen
within the training topics. The tables show the losses and the mean hinge, which training minimises.
"""

import numpy as np
from _common import Experiment
from _diversity_common import against, cross_validated

from structsvm.common.portable.sums import dot
from structsvm.estimators import baselines
from structsvm.estimators.diversity import SVMDiv
from structsvm.features.word_features import Level, WordFeatures
from structsvm.metrics import alpha_ndcg, weighted_subtopic_loss
from structsvm.oracles.coverage import CoverageProblem
from structsvm.readers import judged_candidates, read_aspects, read_qrels, read_run

K = 5


def main() -> None:
    run = Experiment(
        "diversity_trec_aspects",
        __doc__,
        needs=["trec6_8_interactive_aspects", "trec_robust2003", "trec_web2012_diversity"],
    )
    run.say(
        "Training stops at a gap of .01 or after 50 passes with --quick (300 without), whichever comes first; a fit "
        "may not have converged."
    )
    Cs = [0.1, 1.0] if run.quick else np.logspace(-2, 3, 11).tolist()
    seeds = range(run.seed, run.seed + (1 if run.quick else 10))
    aspects = read_aspects(run.data / "trec6_8_interactive_aspects" / "TRECQueryAspects.txt.gz")
    robust = [read_run(p) for p in sorted((run.data / "trec_robust2003" / "runs").glob("input.*"))]
    web = run.data / "trec_web2012_diversity"
    subtopics = read_qrels(web / "qrels.diversity.txt.gz", subtopics=True)
    indri = [read_run(p) for p in sorted((web / "runs").glob("*.gz"))]
    for name, qrels, runs, folds in (
        ("TREC 6-8 aspects, Robust 2003 runs", aspects, robust, None),
        ("Web 2012 subtopics, Indri runs", subtopics, indri, 10),
    ):
        for relevant_only in (False, True):
            found = judged_candidates(
                qrels, runs=runs, depth=10 if run.quick else 50, relevant_only=relevant_only
            )
            _compare(run, name, found, runs, folds, relevant_only, Cs, seeds)
    run.save()


def _compare(run, name, found, runs, folds, relevant_only, Cs, seeds):
    kept = [i for i, m in enumerate(found.labels) if m.any() and len(m) > K]
    sets, labels = [found.sets[i] for i in kept], [found.labels[i] for i in kept]
    kind = "relevant candidates only" if relevant_only else "all candidates"
    run.section(f"{name}: {kind}")
    if len(sets) < 4:
        run.say(f"{len(sets)} topics have more than {K} such documents: too few.")
        return
    model = SVMDiv(
        k=K, levels=[Level.appears()], tol=0.01, max_passes=50 if run.quick else 300, n_jobs=run.jobs
    )
    runs_of = [
        cross_validated(model, sets, labels, Cs, folds=folds or len(sets), inner=3, seed=s)[0] for s in seeds
    ]
    losses = {"SVM-div, run scores": np.mean(runs_of, axis=0)}
    # baselines from the same features: each system alone, and the mean normalised score of each document
    single = np.array([_losses(sets, labels, lambda x, j=j: _unit(x)[:, j]) for j in range(len(runs))])
    losses["best single run, chosen afterwards"] = single[np.argmin(single.mean(axis=1))]
    losses["CombSUM of all runs"] = _losses(sets, labels, lambda x: _unit(x).sum(axis=1))
    losses["original order"] = weighted_subtopic_loss(labels, baselines.OriginalOrder(K).predict(sets))
    losses["random"] = np.mean(
        [weighted_subtopic_loss(labels, baselines.RandomChoice(K, s).predict(sets)) for s in range(50)],
        axis=0,
    )
    chosen = baselines.Clairvoyant(K).predict(sets, labels=labels)
    losses["clairvoyant"] = weighted_subtopic_loss(labels, chosen)
    ours = losses["SVM-div, run scores"]
    rows = []
    for method, values in losses.items():
        wins, p = against(ours, values) if values is not ours else ("", None)
        rows.append([method, values.mean(), wins, "" if p is None else f"{p:.2g}"])
    size = np.mean([len(s) for s in sets])
    run.say(f"{len(sets)} topics of {size:.0f} candidates; weighted subtopic loss at K = {K}.")
    run.table(f"{name}, {kind}", ["method", "loss", "wins/ties/losses of SVM-div", "p"], rows)
    own, zero, *fused = _hinges(model, sets, labels, max(Cs))
    run.say(
        f"Mean hinge on all topics, above the loss of the true documents: {own:.3f} at the weights learned with "
        f"C = {max(Cs):g}, {zero:.3f} at zero; at equal weights of all runs {fused[0]:.3f}, {fused[1]:.3f} and "
        f"{fused[2]:.3f} where they add up to .01, .1 "
        "and 1."
    )
    if own > 0.99 * zero:
        run.say(
            "So nothing is learned, and weights near zero choose in the original order or by rounding: no weights of "
            "the runs put the true documents above the best of all other choices, and the hinge counts by how much "
            "they miss it. The equal weights of CombSUM miss it by more than zero ones do."
        )
    run.record[f"{name}, {kind}, hinge"] = own
    run.record[f"{name}, {kind}, clairvoyant alpha-NDCG"] = float(np.mean(alpha_ndcg(labels, chosen, K)))

    def draw(ax):
        ax.barh(list(losses), [v.mean() for v in losses.values()], color=["C0", *["0.7"] * (len(losses) - 1)])
        ax.tick_params(axis="y", labelsize=5)
        ax.set_xlabel("weighted subtopic loss", fontsize=7)

    run.plot(f"{name.split()[0]} {name.split()[1]}, {kind}", draw)


def _hinges(model, sets, labels, C):
    """Return losses above the true outputs' loss: at weights learned from all sets, at zero, and at equal weights of
    the runs for three lengths.
    """
    features = WordFeatures([Level.appears()])
    coverages = [features.coverage(s) for s in sets]
    w = model.set_params(C=C).fit(sets, labels).coef_
    n_runs = w.size - features.n_bins
    equal = np.concatenate((np.zeros(features.n_bins), np.full(n_runs, 1.0 / n_runs)))
    weights = (w, 0.0 * equal, 0.01 * equal, 0.1 * equal, equal)
    hinges = []
    for v in weights:
        # a problem caches outputs of earlier weights, so each of these weights needs a new problem
        problem = CoverageProblem(coverages, labels, features.bins(), K, separation="swap")
        loss, joint = np.empty(len(sets)), np.empty((len(sets), problem.n_features))
        problem.query_cuts(v, 0, len(sets), loss, joint)
        slacks = np.array([a - dot(row, v) for a, row in zip(loss, joint, strict=True)])
        hinges.append(float(slacks.mean() - weighted_subtopic_loss(labels, problem.targets).mean()))
    return hinges


def _unit(scores):
    """Return each run's scores scaled to [0, 1] within the topic; 0 if the run lacks the document."""
    low, high = np.nanmin(scores, axis=0, initial=np.inf), np.nanmax(scores, axis=0, initial=-np.inf)
    width = np.where(high > low, high - low, 1.0)
    return np.where(np.isnan(scores), 0.0, (scores - np.where(np.isfinite(low), low, 0.0)) / width)


def _losses(sets, labels, score):
    chosen = [np.argsort(-score(s.features), kind="stable")[:K] for s in sets]
    return weighted_subtopic_loss(labels, chosen)


if __name__ == "__main__":
    main()
