"""Arithmetic with the same bits on every processor: the only sums of products and elementary functions of results.

``arrays`` and ``elementary`` need NumPy alone; ``sums`` and ``compiled`` are the same for kernels.
"""
