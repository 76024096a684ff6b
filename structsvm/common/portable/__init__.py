"""Sums of products and elementary functions with the same bits on every processor; results use no others.

``arrays`` and ``elementary`` only need NumPy; ``sums`` and ``compiled`` are the same functions for kernels.
"""
