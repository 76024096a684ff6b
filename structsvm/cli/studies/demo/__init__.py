"""The demonstration: learn to rank, compare with baselines without learning, and write a page about it.

The task is image retrieval on scikit-learn's digits: the query is an image, the candidates are other images, there is
one feature per pixel (the absolute difference), and images of the same digit are relevant.
"""

from structsvm.cli.studies.demo.page import headline, page, results_table
from structsvm.cli.studies.demo.task import Outcome, System, Task, digits_task, run

__all__ = ["Outcome", "System", "Task", "digits_task", "headline", "page", "results_table", "run"]
