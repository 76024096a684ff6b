"""Why not just stop when p < 0.05?
A hundred experiments compare two equal rankers, with a look after every hundred queries. A t test that is repeated at
each look names far more false winners than its level allows; an always-valid p-value does not.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import stdtr

from structsvm.online.statistics import confidence_sequence

rng = np.random.default_rng(0)
looks = np.arange(100, 1501, 100)
n_experiments = 100
outcomes = rng.choice([-1.0, 0.0, 1.0], p=[0.3, 0.4, 0.3], size=(n_experiments, looks[-1]))

sums = outcomes.cumsum(axis=1)[:, looks - 1]
squares = (outcomes**2).cumsum(axis=1)[:, looks - 1]
variance = (squares - sums**2 / looks) / (looks - 1)
p_t = 2 * stdtr(looks - 1, -np.abs(sums / np.sqrt(looks * variance)))
p_always = np.array([confidence_sequence(row, looks=looks).p_values for row in outcomes])

# %%
# The figure shows the share of experiments that have declared a winner by each look, although there is none.
fig, ax = plt.subplots(layout="constrained")
for p, name, style in ((p_t, "t test, repeated", "-"), (p_always, "always valid", "--")):
    wrong = (np.minimum.accumulate(p, axis=1) <= 0.05).mean(axis=0)
    ax.plot(looks, wrong, ls=style, label=name)
    print(f"{name:18s} {wrong[-1]:.1%} wrong by the last look")
ax.axhline(0.05, c="0.3", lw=0.8, ls=":", label="nominal level")
ax.set(xlabel="queries", ylabel="experiments with a false winner", ylim=(0, None))
ax.legend()
