"""Choose C by cross-validation

Each fold trains all values of C in sequence, and reuses the cutting planes found for one value in the next fit.
"""

import matplotlib.pyplot as plt
import numpy as np

from structsvm import StructuralRankerCV
from structsvm.plots import against_C
from structsvm.readers import make_ranking

data = make_ranking(60, 15, 30, grades=2, noise=1.0, random_state=1)
Cs = np.logspace(-3, 2, 11)
search = StructuralRankerCV("map", Cs=Cs, cv=5, random_state=0).fit(data.X, data.y, qid=data.qid)
careful = StructuralRankerCV("map", Cs=Cs, cv=5, selection="one_se", random_state=0)
careful.fit(data.X, data.y, qid=data.qid)
print(f"best mean: C = {search.C_:.3g}; smallest within one standard error: C = {careful.C_:.3g}")

# %%
# The curve is flat where the measure hardly depends on C. ``one_se`` picks the most regularised model of the
# flat part.
means = np.nanmean(search.scores_, axis=0)
errors = np.nanstd(search.scores_, axis=0, ddof=1) / np.sqrt(np.isfinite(search.scores_).sum(axis=0))
fig, ax = plt.subplots(layout="constrained")
against_C(search.Cs_, means, chosen=search.C_, label="max", ax=ax)
ax.fill_between(search.Cs_, means - errors, means + errors, alpha=0.2)
ax.axvline(careful.C_, ls=":", c="0.3", label="one_se")
ax.legend()
