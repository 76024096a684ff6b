"""Which features count?
The weights of a linear model can be compared only if the features have the same scale. Permutation importance works for
any model: it is the decrease of the measure when a feature is shuffled.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.inspection import PartialDependenceDisplay

from structsvm import LambdaRank, SVMMap
from structsvm.estimators import as_regressor
from structsvm.metrics import permutation_importance
from structsvm.readers import make_ranking

made = make_ranking(60, 20, 5, grades=3, noise=0.5, random_state=2)
X = pd.DataFrame(made.X, columns=["bm25", "pagerank", "title", "age", "length"])
y, qid = made.y, made.qid
model = SVMMap(C=1.0).fit(X, y, qid=qid)

# %%
# Features are sorted by importance. Negative values are due to chance: such a feature is useless.
found = permutation_importance(model, X, y, qid=qid, measure="ndcg@10", n_repeats=5, random_state=0)
print(found.to_frame().round(3).to_string())
fig, ax = plt.subplots(layout="constrained")
order = found.order[::-1]
ax.barh([found.names[j] for j in order], found.mean[order], xerr=found.std[order])
ax.set_xlabel("NDCG@10 lost when the feature is shuffled")

# %%
# scikit-learn draws the partial dependence, the mean score as a function of one feature. It is linear for a linear
# model, and may be a curve for a network. Scores of different models have no common scale, so each model has a row.
network = LambdaRank("ndcg@10", hidden=(8,), random_state=0, max_epochs=30).fit(X, y, qid=qid)
fig, axes = plt.subplots(2, 2, layout="constrained", figsize=(7, 5), sharex="col")
for ranker, row in ((model, axes[0]), (network, axes[1])):
    scores = as_regressor(ranker)  # scikit-learn requires a regressor
    PartialDependenceDisplay.from_estimator(scores, X, ["age", "length"], ax=row, grid_resolution=20)
    row[0].set_ylabel(f"mean score of {type(ranker).__name__}")
    row[1].set_ylabel("")
