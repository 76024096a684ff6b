"""When a linear model cannot do it
A linear ranker cannot represent a product of two features. LambdaRank trains a
small neural network for the same measure. Such a model comes without a certificate.
"""

import matplotlib.pyplot as plt
import numpy as np

from structsvm import SVMNDCG, LambdaRank

rng = np.random.default_rng(0)
X, qid = rng.normal(size=(1600, 2)), np.repeat(np.arange(80), 20)
y = np.clip(np.round(X[:, 0] * X[:, 1] + 0.4 * X[:, 0] + 1 + 0.2 * rng.normal(size=len(X))), 0, 3)
train, test = qid < 40, qid >= 40
models = {
    "SVM for NDCG": SVMNDCG(C=1).fit(X[train], y[train], qid=qid[train]),
    "LambdaRank, 16 hidden units": LambdaRank("ndcg@10", hidden=(16,), random_state=0).fit(
        X[train], y[train], qid=qid[train]
    ),
}
for name, model in models.items():
    print(f"{name}: NDCG@10 {model.score(X[test], y[test], qid=qid[test]):.3f}")

# %% The figure shows the scores as a function of the two features, darker blue for higher scores. Points are test
# documents.
ticks = np.linspace(-2.5, 2.5, 61)
plane = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
fig, axes = plt.subplots(1, 2, layout="constrained", figsize=(8, 3.8), sharey=True)
for ax, (name, model) in zip(axes, models.items(), strict=True):
    ax.contourf(ticks, ticks, model.predict(plane).reshape(61, 61), 12, cmap="Blues")
    points = ax.scatter(
        *X[test][::4].T, c=y[test][::4], s=10, cmap="Oranges", edgecolors="0.4", linewidths=0.3
    )
    ax.set(title=name, xlabel="first feature", xlim=(-2.5, 2.5), ylim=(-2.5, 2.5))
axes[0].set_ylabel("second feature")
fig.colorbar(points, ax=axes, label="grade")
