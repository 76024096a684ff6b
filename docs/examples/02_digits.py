"""Find images of the same digit
An image is the query, the other images are the documents, and images of the same digit are relevant. The features
of a pair measure, pixel by pixel, how well the two images agree. Data: the digits of scikit-learn.
"""

from structsvm.cli.studies.demo import digits_task, headline, run
from structsvm.plots import differences, weights

task = digits_task()
outcome = run(task, n_jobs=1)
print(headline(outcome))

# %%
# The systems on the test queries. The baseline needs no training: Euclidean distance.
for system in outcome.systems:
    print(f"{system.name:12s} MAP {system.per_query.mean():.3f}")

# %%
# Query by query, the best learned model against the first system of the table.
best = max(
    (system for system in outcome.systems if system.model is not None), key=lambda s: s.per_query.mean()
)
differences(best.per_query - outcome.systems[0].per_query)

# %%
# Which pixels count. Row and column of the eight by eight image name a weight.
names = [f"pixel {i // 8 + 1}, {i % 8 + 1}" for i in range(best.model.coef_.size)]
weights(best.model.coef_, names, top=10)
