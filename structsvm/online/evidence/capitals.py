"""Compiled capital of the bets of :mod:`~structsvm.online.evidence.always_valid`, and the means that it refutes."""

import math

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.common.portable import compiled


@kernel
def bounds(unit, counts, starts, shares, threshold, width, lower, upper, at_half):  # type: ignore[no-untyped-def]
    """Write the bounds of the mean of each group, and the logarithm of its capital against the mean 1/2.

    Group ``g`` has the distinct outcomes ``unit[starts[g]:starts[g + 1]]`` in [0, 1], each ``counts`` times. No bet
    gains against the sample mean, and the capital increases from there towards 0 and 1. A bound is the first mean in
    either direction whose capital reaches ``threshold`` (a logarithm), rounded outwards by about ``width``.
    """
    growth = np.empty(2 * len(shares))
    slopes = np.empty(2 * len(shares))
    for g in range(len(starts) - 1):
        u, n = unit[starts[g] : starts[g + 1]], counts[starts[g] : starts[g + 1]]
        total, won = 0.0, 0.0
        for k in range(len(u)):
            total += n[k]
            won += n[k] * u[k]
        mean = min(max(won / total, 0.0), 1.0)
        at_half[g] = _log_capital(u, n, shares, 0.5, growth, slopes)[0]
        # start where a normal distribution would have its bound
        spread = 0.0
        for k in range(len(u)):
            spread += n[k] * (u[k] - mean) ** 2
        reach = math.sqrt(2.0 * (threshold + 2.0) * (spread + 1.0)) / total
        lower[g] = _crossing(u, n, shares, threshold, width, mean, 0.0, mean - reach, growth, slopes)
        upper[g] = _crossing(u, n, shares, threshold, width, mean, 1.0, mean + reach, growth, slopes)


@kernel
def _crossing(u, n, shares, threshold, width, inside, outside, guess, growth, slopes):  # type: ignore[no-untyped-def]
    """Return a refuted mean between ``inside`` and ``outside`` (0 or 1), about ``width`` beyond the crossing."""
    # Newton's method on the logarithm of the capital, within a bracket. Each step goes slightly beyond the crossing,
    # to the other side of the last point, so that both ends of the bracket close in on it.
    direction = 2.0 * outside - 1.0
    while abs(outside - inside) > 0.05 * width:
        if not min(inside, outside) < guess < max(inside, outside):
            guess = 0.5 * (inside + outside)
        before = abs(outside - inside)
        value, slope = _log_capital(u, n, shares, guess, growth, slopes)
        refuted = value >= threshold
        if refuted:
            outside = guess
        else:
            inside = guess
        # bisect if the bracket shrinks slowly, or if Newton's method has no direction
        if slope * direction > 0.0 and abs(outside - inside) < 0.75 * before:
            guess += (threshold - value) / slope + direction * width * (-0.02 if refuted else 0.02)
        else:
            guess = 0.5 * (inside + outside)
    return min(max(outside + direction * width, 0.0), 1.0)


@kernel
def _log_capital(u, n, shares, mean, growth, slopes):  # type: ignore[no-untyped-def]
    """Return the logarithm of the capital against ``mean``, and its derivative."""
    # An outcome u multiplies a bet on "above the mean m" by 1 + c (u / m - 1), and a bet on "below" by the same factor
    # with 1 - u and 1 - m.
    size = len(shares)
    for b in range(2 * size):
        c = shares[b % size]
        m = mean if b < size else 1.0 - mean
        of_one, change, product = 0.0, 0.0, 1.0
        for k in range(len(u)):
            gain = (u[k] if b < size else 1.0 - u[k]) / m
            factor = 1.0 + c * (gain - 1.0)
            change -= n[k] * gain / factor
            # a logarithm takes longer than a hundred products, so single outcomes share one
            if n[k] == 1:
                product *= factor
                if not 1e-200 < product < 1e200:
                    of_one += compiled.log(product)
                    product = 1.0
            else:
                of_one += n[k] * compiled.log1p(c * (gain - 1.0))
        growth[b] = of_one + compiled.log(product)
        slopes[b] = (change if b < size else -change) * c / m
    largest = growth.max()
    total, slope = 0.0, 0.0
    for b in range(2 * size):
        weight = compiled.exp(growth[b] - largest)
        total += weight
        slope += weight * slopes[b]
    return largest + compiled.log(total) - compiled.log(2.0 * size), slope / total
