"""Data sets made on the spot, each with a known answer, and what is in a file that somebody has.

``list_datasets`` names what ``make`` can write; ``describe`` tells kind, counts, labels and oddities of LETOR texts,
stores, TREC runs and judgments, and JSON Lines.
"""

from structsvm.datasets.describing import Description, describe
from structsvm.datasets.making import Dataset, list_datasets, make, make_runs

__all__ = ["Dataset", "Description", "describe", "list_datasets", "make", "make_runs"]
