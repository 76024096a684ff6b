"""From interleaved lists to a verdict
Two rankers share each list by team draft. Clicks are credited to the ranker that contributed the document.
"""

import matplotlib.pyplot as plt
import numpy as np

from structsvm.online.clicklog import ClickLog
from structsvm.online.interleaving import TeamDraft
from structsvm.online.statistics import analyse, confidence_sequence, credit_log, simulate_log
from structsvm.online.users import CascadeUser
from structsvm.readers import make_ranking

data = make_ranking(100, 20, 4, grades=3, noise=0.5, random_state=0)
scores = np.column_stack([data.X @ [1.0, 0.2, 0.0, 0.0], data.X.sum(axis=1)])
impressions = simulate_log(
    data, scores, TeamDraft(), CascadeUser.named("navigational", 3), 3000, rankers=("old", "new"), rng=0
)
log = ClickLog.of(impressions)
answer = analyse(log)
pair = answer.pairs[0]
print(f"winner: {answer.winner}, p = {pair.p_value:.2g} after {answer.n_impressions} queries")

# %%
# The figure shows an interval that is valid at every look as the log grows: you may look early and often.
outcome = np.sign(credit_log(log).pair(0, 1).delta)
looks = np.unique(np.geomspace(30, len(outcome), 60).astype(int))
seen = confidence_sequence(outcome, looks=looks)
fig, ax = plt.subplots(layout="constrained")
ax.fill_between(seen.looks, seen.lower, seen.upper, alpha=0.25, label="95% at all looks at once")
ax.plot(seen.looks, seen.mean, label="mean outcome: above 0 favours 'old'")
ax.axhline(0, color="0.3", lw=0.8)
ax.set(xscale="log", xlabel="queries", ylabel="mean outcome")
ax.legend()
decided = seen.looks[seen.p_values <= 0.05]
print(f"decided at the look after {decided[0] if decided.size else 'no'} queries")
