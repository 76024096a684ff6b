"""Sums of products and elementary functions with the same bits on every processor; all results are computed with these.

``arrays`` and ``elementary`` only need NumPy; ``sums`` and ``compiled`` are the same functions for kernels.
"""
