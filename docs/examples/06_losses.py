"""One data set, five losses, four measures
Each loss is trained on the same queries, with C chosen by cross-validation for its own measure.
"""

import matplotlib.pyplot as plt
import numpy as np

from structsvm import StructuralRankerCV
from structsvm.metrics import evaluate
from structsvm.readers import make_ranking

data = make_ranking(160, 25, 15, noise=1.2, random_state=0)
train, test = data.select(range(60)), data.select(range(60, 160))
losses = ("map", "ndcg@10", "mrr", "precision@5", "pairs")
measures = ("map", "ndcg@10", "mrr", "precision@5")
table = np.empty((len(losses), len(measures)))
for i, loss in enumerate(losses):
    model = StructuralRankerCV(loss, Cs=[0.1, 10], cv=2).fit(train.X, train.y, qid=train.qid)
    scores = model.predict(test.X)
    table[i] = [evaluate(measure, test.y, scores, qid=test.qid).mean for measure in measures]

# %%
# Rows are losses, columns are measures; the best value of each column is framed. On easy linear data, as in this
# example, the losses differ little: choose the loss of your measure, and expect small differences.
fig, ax = plt.subplots(layout="constrained")
ax.imshow(table - table.max(axis=0), cmap="Blues", aspect="auto")
for (i, j), value in np.ndenumerate(table):
    dark = table[i, j] - table[:, j].max() > 0.6 * (table - table.max(axis=0)).min()
    ax.text(j, i, f"{value:.3f}", ha="center", va="center", color="white" if dark else "black")
    if value == table[:, j].max():
        ax.add_patch(plt.Rectangle((j - 0.48, i - 0.46), 0.96, 0.92, fill=False, ec="tab:orange", lw=2))
ax.set_xticks(range(len(measures)), measures)
ax.set_yticks(range(len(losses)), losses)
ax.set(xlabel="measured by", ylabel="trained for")
