"""Compiled forms of the bandits for long simulations; the reference implementations are in the parent folder.

A compiled form plays a whole run. It skips steps in which nothing can change, and takes O(K) time for each other step.
It draws the same random numbers in the same order as the policy and the world, so that both play the same duels, except
that RCS agrees only in distribution. A bound that equals 1/2 up to rounding may be rounded differently by the two
forms. Importing this package is fast; Numba is loaded when a compiled form is first used.
"""
