"""The demonstration: learn to rank, compare with what needs no learning, and write a page about it.

Without data of your own it is image retrieval on scikit-learn's digits: an image asks, other images answer, one feature
a pixel (the absolute difference), relevant are the images of the same digit.
"""

from structsvm.studies.demo.page import headline, results_table, write_page
from structsvm.studies.demo.task import Outcome, Pictures, System, Task, digits_task, letor_task, run

__all__ = [
    "Outcome",
    "Pictures",
    "System",
    "Task",
    "digits_task",
    "headline",
    "letor_task",
    "results_table",
    "run",
    "write_page",
]
