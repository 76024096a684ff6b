"""The demonstration: learn to rank, compare with baselines that learn nothing, and write a page about it.

Without data of your own the page begins with synthetic data on which training for MAP and for ROC area lead to
different rankings (:func:`spam_task`). It goes on with image retrieval on scikit-learn's digits: the query is an image,
the candidates are other images, there is one feature per pixel (the absolute difference), and images of the same digit
are relevant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.studies.demo.page import headline as headline
    from structsvm.studies.demo.page import measure_headline as measure_headline
    from structsvm.studies.demo.page import results_table as results_table
    from structsvm.studies.demo.page import write_page as write_page
    from structsvm.studies.demo.spam import spam_task as spam_task
    from structsvm.studies.demo.task import Outcome as Outcome
    from structsvm.studies.demo.task import Pictures as Pictures
    from structsvm.studies.demo.task import System as System
    from structsvm.studies.demo.task import Task as Task
    from structsvm.studies.demo.task import digits_task as digits_task
    from structsvm.studies.demo.task import letor_task as letor_task
    from structsvm.studies.demo.task import run as run

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "structsvm.studies.demo.page": "headline measure_headline results_table write_page",
        "structsvm.studies.demo.spam": "spam_task",
        "structsvm.studies.demo.task": "Outcome Pictures System Task digits_task letor_task run",
    },
)
