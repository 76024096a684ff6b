"""Cover many meanings with few documents
Four documents have to serve an ambiguous query. SVM-div learns from sets with labelled subtopics which
words are worth covering; new sets need no labels.
"""

import matplotlib.pyplot as plt
import numpy as np

from structsvm import CandidateSet, SVMDiv
from structsvm.estimators.baselines import MMR, UnweightedCoverage

# %%
# Synthetic sets: each subtopic has its own words, which several of its documents share; in addition, each
# document has meaningless words, which are spread evenly over all documents.
rng = np.random.default_rng(0)


def make_set(number, n_docs=24, n_subtopics=6):
    sizes = rng.dirichlet(np.ones(n_subtopics))
    labels = rng.uniform(size=(n_docs, n_subtopics)) < 0.1 + 0.5 * sizes
    texts = []
    for row in labels:
        words = [f"s{number}t{t}w{w}" for t in np.flatnonzero(row) for w in rng.choice(4, 3, replace=False)]
        noise = [f"n{number}x{v}" for v in rng.integers(0, 60, 25)]
        texts.append(" ".join([*words, *noise]))
    return CandidateSet(texts, query=f"query {number}"), labels.astype(float)


made = [make_set(i) for i in range(40)]
sets, labels = [one for one, _ in made], [matrix for _, matrix in made]
model = SVMDiv(C=10, k=4).fit(sets[:25], labels[:25])

# %%
# The table shows the share of subtopics that four documents cover, on sets that were not used for training.
new_sets, new_labels = sets[25:], labels[25:]
methods = {"SVM-div": model, "all words alike": UnweightedCoverage(4), "MMR": MMR(4)}
covered = {}
for name, method in methods.items():
    chosen = method.predict(new_sets)
    share = [L[c].any(axis=0).sum() / L.any(axis=0).sum() for L, c in zip(new_labels, chosen, strict=True)]
    covered[name] = np.array(share)
    print(f"{name:16s} {covered[name].mean():.2f} of the subtopics")

# %%
# The figure shows the subtopics that each method covers in one set, with a row per method and a column per subtopic.
which = int(np.argmax(covered["SVM-div"] - covered["all words alike"]))
fig, ax = plt.subplots(layout="constrained", figsize=(6.4, 2.4))
grid = [new_labels[which][method.predict([new_sets[which]])[0]].sum(axis=0) for method in methods.values()]
ax.imshow(np.minimum(grid, 2), cmap="Blues", aspect="auto", vmin=0, vmax=3)
for (i, j), n in np.ndenumerate(np.array(grid)):
    ax.text(j, i, f"{n:.0f}", ha="center", va="center")
ax.set_yticks(range(len(methods)), list(methods))
ax.set(xlabel=f"subtopic of {new_sets[which].query}", title="chosen documents about each subtopic")
