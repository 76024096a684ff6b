"""Scale features before training

The penalty treats all weights alike, so a feature with values in the thousands is hardly penalised, and a feature in
thousandths heavily.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from structsvm import StructuralRanker
from structsvm.readers import make_ranking

data = make_ranking(80, 20, 6, grades=2, noise=0.5, random_state=0)
X = data.X * 10.0 ** np.array([-3, -2, -1, 0, 1, 2])  # features in different units
train, test = data.qid < 40, data.qid >= 40
scores = {}
with warnings.catch_warnings(action="ignore"):  # unscaled features are intended
    for scale in ("none", "minmax", "zscore", "query-minmax", "query-percentile"):
        model = StructuralRanker("map", C=1, scale=scale).fit(X[train], data.y[train], qid=data.qid[train])
        scores[scale] = model.score(X[test], data.y[test], qid=data.qid[test])
        print(f"{scale:16s} MAP {scores[scale]:.3f}, {model.fit_.n_passes} passes")

# %%
# Without scaling, training takes more passes, and the features in small units hardly count. A larger C reduces the loss
# of MAP, but not the number of passes.
fig, ax = plt.subplots(layout="constrained")
ax.plot(list(scores.values()), list(scores), "o")
ax.set(xlabel="MAP on test queries", xlim=(0.8, 1))
ax.grid(axis="y", alpha=0.3)
ax.invert_yaxis()
