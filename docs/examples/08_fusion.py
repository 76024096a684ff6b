"""Learn to combine runs
Each run gives scores on its own scale. A step function per run says how much each range of its scores is worth;
SVM-map learns all of them together.
"""

from structsvm.estimators import fusion_path
from structsvm.metrics import evaluate
from structsvm.plots import step_functions
from structsvm.readers import candidates, judge_run, make_runs

runs, qrels, _ = make_runs(n_topics=30, n_docs=60, n_runs=4, random_state=0)
pool = candidates(runs, qrels)
(model,) = fusion_path(pool, [10.0], n_bins=20)
print(model)

# %%
# The combined run is compared with the single runs on the training topics (``structsvm fuse`` cross-validates).
for run in [*runs, model.rank(pool)]:
    print(f"{run.tag:10s} MAP {evaluate('map', **judge_run(run, qrels)._asdict()).mean:.3f}")

# %% The step functions show what the score of a run adds to a document's score. The function of a good run rises to
# large values; that of a useless run stays near zero.
step_functions(model.step_functions())
