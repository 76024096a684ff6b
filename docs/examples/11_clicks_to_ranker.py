"""Train on clicks without labels
A click log favours documents that the old ranker placed high. Weighting each click by the inverse probability
that its position is examined removes this bias.
"""

import matplotlib.pyplot as plt
import numpy as np

from structsvm import ClickSVM, SVMMap
from structsvm.clicks import ClickCells, harvest
from structsvm.metrics import evaluate
from structsvm.readers import make_ranking

# %%
# In the log, two poor rankers take turns. Users examine position ``k`` with probability ``1 / k``, click on a relevant
# document that they examine, and occasionally on an irrelevant one.
data = make_ranking(60, 20, 10, grades=2, noise=0.5, random_state=0)
rng = np.random.default_rng(0)
y, docs = data.y.reshape(60, 20), np.arange(20)
old = [data.X[:, j].reshape(60, 20) for j in (0, 1)]


def log(n_lists):
    query = rng.integers(0, 60, n_lists)
    which = rng.integers(0, 2, n_lists)
    scores = np.where(which[:, None] == 0, old[0][query], old[1][query])
    shown = np.argsort(-scores, axis=1)
    seen = rng.uniform(size=shown.shape) < 1 / (1 + docs)
    tempting = np.where(y[query[:, None], shown] > 0, 1.0, 0.1)
    clicked = seen & (rng.uniform(size=shown.shape) < tempting)
    return ClickCells.from_arrays(
        np.repeat(query, 20), shown.ravel(), np.tile(docs + 1, n_lists), clicked.ravel()
    )


# %%
# Models trained on the weighted and the unweighted clicks are compared with a model trained on the labels.
sizes, found = (300, 3000, 30_000), {"weighted": [], "as they are": []}
docid = np.tile(docs, 60)
for n_lists in sizes:
    cells = log(n_lists)
    for name, propensities in (
        ("weighted", harvest(cells, last=10, tail=True)),
        ("as they are", np.ones(20)),
    ):
        model = ClickSVM(C=1.0, propensities=propensities).fit(data.X, cells, qid=data.qid, docid=docid)
        found[name].append(evaluate("map", data.y, model.predict(data.X), qid=data.qid).mean)
labels = SVMMap(C=1.0).fit(data.X, data.y, qid=data.qid).score(data.X, data.y, qid=data.qid)
fig, ax = plt.subplots(layout="constrained")
for (name, values), style in zip(found.items(), ("-", "--"), strict=True):
    ax.plot(sizes, values, ls=style, marker="o", label=f"clicks, {name}")
ax.axhline(labels, c="0.3", ls=":", label="labels")
ax.set(xscale="log", xlabel="lists shown", ylabel="MAP")
ax.legend()
