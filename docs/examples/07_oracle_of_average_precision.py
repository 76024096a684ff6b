"""The most violated ranking for average precision
Training repeatedly needs the wrong ranking of a query that is worst for the current weights. For average precision
it interleaves the sorted relevant and the sorted other documents, and the position of each of the others is found
independently.
"""

import matplotlib.pyplot as plt
import numpy as np

from structsvm.oracles import AveragePrecision

rng = np.random.default_rng(3)
P, N = 6, 10
relevant = np.sort(rng.normal(0.6, 0.7, P))[::-1]
others = np.sort(rng.normal(0.0, 0.7, N))[::-1]

# %%
# The figure shows the change of the objective if other document ``j`` is just above the relevant document of rank
# ``k``, compared with a position below all relevant documents (``P + 1``): the average precision lost, minus the cost
# in scores.
H = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, P + N + 1))])
S = np.concatenate([[0.0], np.cumsum(relevant)])
delta = np.empty((N, P + 1))
for j in range(1, N + 1):
    for k in range(1, P + 2):
        lost = (j * (H[j + P] - H[j + k - 1]) - (j - 1) * (H[j + P - 1] - H[j + k - 2])) / P
        paid = 2 / (P * N) * (S[P] - S[k - 1] - (P - k + 1) * others[j - 1])
        delta[j - 1, k - 1] = lost - paid
best = delta.argmax(axis=1) + 1
print("best position of each:", best.tolist())
assert (np.diff(best) >= 0).all()  # so divide and conquer finds all best positions in one sweep

# %%
# The best positions increase with the rank ``j``: once one is known, the positions of documents before and after
# ``j`` are searched only on one side of it.
fig, ax = plt.subplots(layout="constrained")
image = ax.imshow(delta, cmap="Blues", aspect="auto", extent=(0.5, P + 1.5, N + 0.5, 0.5))
fig.colorbar(image, label="average precision lost, minus cost in scores")
ax.plot(best, np.arange(1, N + 1), marker="o", c="tab:orange", label="best position")
ax.set(xlabel="k: just above the relevant document of this rank", ylabel="j: rank among the others")
ax.legend()

# %%
# The oracle does not return the ranking, but a coefficient per row, with which the row enters the subgradient. Relevant
# documents are moved up, the others down, and the coefficients add up to zero.
scores, y = np.concatenate([relevant, others]), np.array([1.0] * P + [0.0] * N)
loss, moves = np.empty(1), np.empty(P + N)
AveragePrecision().bind(y, np.array([0, P + N])).separate(scores, 0, 1, loss, moves)
print(f"average precision of the worst ranking: {1 - loss[0]:.3f}, moves add up to {abs(moves.sum()):.1g}")
assert np.allclose(moves[P:], -2 * (P + 1 - best) / (P * N))  # equals the table above
