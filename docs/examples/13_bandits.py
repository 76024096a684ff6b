"""Find the best ranker while serving users
A dueling bandit chooses which two rankers to compare next. Regret measures the loss of users who were shown poor
rankers.
"""

import numpy as np

from structsvm.online import assumption_report, simulate
from structsvm.plots import regret

# %%
# There are sixteen rankers in random order; the best beats each of the others with a probability of 0.55 to 0.8.
rng = np.random.default_rng(0)
utilities = rng.permutation(np.concatenate([[0.9], np.linspace(0.3, 0.8, 15)]))
P = 0.5 + 0.5 * (utilities[:, None] - utilities)
report = assumption_report(P)
print(f"the best is ranker {report.condorcet}")

# %%
names = ("rucb", "rmed1", "mergerucb", "mdb")
results = {name: simulate(name, P, horizon=20_000, n_runs=5, seed=1) for name in names}
for name, run in results.items():
    print(f"{name:10s} regret {run.mean()[-1]:7.1f}, right in {run.accuracy[-1]:.0%} of the runs")

# %%
# Bands are 95% intervals of the mean over runs. A curve that becomes horizontal has no further regret.
regret(results)
