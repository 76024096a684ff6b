"""How often do users look at each position?
The click rate falls with the rank for two reasons: lower positions are examined less often, and they have
poorer documents. Documents shown at several positions for the same query separate the two effects.
"""

import matplotlib.pyplot as plt
import numpy as np

from structsvm.clicks import ClickCells, harvest

# %%
# The log is synthetic: a good ranker's list is perturbed at random, as by interleaving or by swapping a few results,
# and users examine position ``k`` with probability ``1 / k``.
rng = np.random.default_rng(0)
n_lists, length, n_docs = 20_000, 8, 12
attraction = np.sort(rng.beta(1, 4, size=(40, n_docs)), axis=1)[:, ::-1]  # document 0 is the best
query = rng.integers(0, 40, n_lists)
noise = rng.gumbel(size=(n_lists, n_docs))
order = np.argsort(np.log(np.arange(1, n_docs + 1)) * 2.0 - noise, axis=1)[:, :length]
seen = rng.uniform(size=(n_lists, length)) < 1 / np.arange(1, length + 1)
clicked = seen & (rng.uniform(size=(n_lists, length)) < attraction[query[:, None], order])

cells = ClickCells.from_arrays(
    np.repeat(query, length), order.ravel(), np.tile(np.arange(1, length + 1), n_lists), clicked.ravel()
)
estimate = harvest(cells)
rate = clicked.mean(axis=0)
positions = np.arange(1, length + 1)
for k, theta in zip(positions, estimate.theta, strict=True):
    print(
        f"position {k}: estimated {theta:.3f}, true {1 / k:.3f}, click rate relative to 1: {rate[k - 1] / rate[0]:.3f}"
    )

# %%
fig, ax = plt.subplots(layout="constrained")
low, high = estimate.interval(0.95)
bars = [estimate.theta - low, high - estimate.theta]
ax.errorbar(positions, estimate.theta, bars, marker="o", capsize=3, label="estimated, 95%")
ax.plot(positions, 1 / positions, ls="--", c="0.3", label="truth")
ax.plot(positions, rate / rate[0], ls=":", marker="s", label="click rate")
ax.set(xlabel="position", ylabel="looked at, relative to position 1", ylim=(0, None))
ax.legend()
