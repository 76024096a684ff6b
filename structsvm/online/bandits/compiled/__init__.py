"""Compiled forms of the bandits, for long simulations; the policies in the parent folder are their literal twins.

A compiled form plays a whole run. It skips the steps in which nothing can change and takes O(K) time for each remaining
step. It draws the same random numbers in the same order as the policy and the world do, so that both play the same
duels. RCS agrees in distribution only. A bound that equals 1/2 to the last digit may be rounded differently by the two
forms. Importing this package is fast; Numba is loaded when a form is first used.
"""
