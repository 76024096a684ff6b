"""Train for the measure you are judged by
Average precision depends mainly on the top of the list, ROC area equally on all of it. If one feature puts a few
poor documents at the top, the two measures favour different rankings.
"""

import matplotlib.pyplot as plt
import numpy as np

from structsvm import SVMMap, SVMRoc
from structsvm.metrics import compare, evaluate
from structsvm.plots import differences

# %%
# The second feature finds all relevant documents, the first only half of them. Three in a hundred of the others
# are spam: ranked high by the second feature and low by the first. Spam costs little ROC area, as it is rare, and
# much average precision, as it is at the top.


def make(n_queries, rng):
    n_docs = 60
    X = rng.normal(size=(n_queries * n_docs, 2))
    y = (rng.uniform(size=len(X)) < 0.1).astype(int)
    half = rng.uniform(size=len(X)) < 0.5
    X[(y == 1) & half] += [2.0, 1.5]
    X[(y == 1) & ~half] += [0.0, 1.5]
    X[(y == 0) & (rng.uniform(size=len(X)) < 0.03)] += [-2.0, 5.0]
    return X, y, np.repeat(np.arange(n_queries), n_docs)


rng = np.random.default_rng(0)
X, y, qid = make(40, rng)
X_test, y_test, qid_test = make(100, rng)
models = {"SVM-map": SVMMap(C=30, tol=0.01), "SVM-roc": SVMRoc(C=30, tol=0.01)}
for model in models.values():
    model.fit(X, y, qid=qid)

# %%
# By average precision SVM-map wins clearly; by ROC area the two hardly differ.
results = {}
for measure in ("map", "roc"):
    for name, model in models.items():
        results[name, measure] = evaluate(measure, y_test, model.predict(X_test), qid=qid_test)
        print(f"{name}: {measure} {results[name, measure].mean:.3f}")
for measure in ("map", "roc"):
    test = compare(results["SVM-map", measure], results["SVM-roc", measure])
    print(f"{measure}: SVM-map {test.mean_difference:+.3f} (p = {test.p_value:.1g})")

# %%
# The reason is in the weights: the lines join documents of equal score.
fig, axes = plt.subplots(1, 2, layout="constrained", figsize=(8, 3.8))
shown = qid_test < 12
for label, colour, marker in ((0, "tab:blue", "o"), (1, "tab:orange", "s")):
    rows = shown & (y_test == label)
    axes[0].scatter(*X_test[rows].T, s=9, c=colour, marker=marker, label=("other", "relevant")[label])
for (name, model), style in zip(models.items(), ("-", "--"), strict=True):
    w = model.coef_ / np.linalg.norm(model.coef_)
    along = np.array([-w[1], w[0]])
    axes[0].axline(1.5 * w, 1.5 * w + along, ls=style, c="0.2", label=name)
axes[0].set(xlim=(-5, 5), ylim=(-3, 8), xlabel="first feature", ylabel="second feature")
axes[0].legend(fontsize=8)
differences(results["SVM-map", "map"], results["SVM-roc", "map"], ax=axes[1])
