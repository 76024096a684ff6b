"""Sums of products and elementary functions with the same bits on every processor, from which all results are computed.

``arrays`` and ``elementary`` only need NumPy; ``sums`` and ``compiled`` are the same functions for kernels.
"""
