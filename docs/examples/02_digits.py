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
# The table shows all systems on the test queries. The baseline, Euclidean distance, needs no training.
for system in outcome.systems:
    print(f"{system.name:12s} MAP {system.per_query.mean():.3f}")

# %%
# The figure compares the best learned model with the first system of the table, query by query.
best = max(
    (system for system in outcome.systems if system.model is not None), key=lambda s: s.per_query.mean()
)
differences(best.per_query - outcome.systems[0].per_query)

# %%
# The figure shows the largest weights. A weight is named by the row and column of its pixel in the 8 x 8 image.
names = [f"pixel {i // 8 + 1}, {i % 8 + 1}" for i in range(best.model.coef_.size)]
weights(best.model.coef_, names, top=10)
