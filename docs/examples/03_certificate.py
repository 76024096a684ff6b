"""Watch the gap close
Every trainer reports an upper and a lower bound on the optimum after each pass over the data. All three
reach the same optimum in different ways.
"""

import matplotlib.pyplot as plt

from structsvm import SVMMap
from structsvm.plots import gap
from structsvm.readers import make_ranking

data = make_ranking(60, 40, 20, grades=2, noise=1.0, random_state=0)
fits = {}
for solver in ("one_slack", "frank_wolfe", "n_slack"):
    fits[solver] = SVMMap(C=10, tol=1e-4, solver=solver).fit(data.X, data.y, qid=data.qid).fit_
    fit = fits[solver]
    print(f"{solver:12s} {fit.n_passes:4d} passes, objective {fit.primal:.5f}, at least {fit.dual:.5f}")

# %%
# The dashed line is the tolerance, below which training stops.
gap(fits, tol=1e-4)

# %%
# The next figure shows the two bounds of one fit.
history = fits["frank_wolfe"].history
fig, ax = plt.subplots(layout="constrained")
passes = [step.n_passes for step in history]
ax.fill_between(passes, [step.dual for step in history], [step.primal for step in history], alpha=0.2)
ax.plot(passes, [step.primal for step in history], marker="o", ms=3, label="upper bound: best weights so far")
ax.plot(passes, [step.dual for step in history], marker="s", ms=3, ls="--", label="lower bound: dual problem")
ax.set(xlabel="passes over the data", ylabel="objective")
ax.legend()
