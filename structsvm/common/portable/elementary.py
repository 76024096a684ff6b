"""``exp``, ``log`` and related functions from the four basic operations, which every processor rounds in the same way.

NumPy and the C library have several implementations of these functions, which differ in the last bit, and choose one
depending on the processor. The functions of this module take arrays or numbers, and their error is below two units in
the last place; :mod:`structsvm.common.portable.compiled` provides them for kernels, with the same bits.

``exp(x) = 2^k exp(r)`` with ``r = x - k ln 2`` in ``[-ln 2 / 2, ln 2 / 2]``, where ``exp(r)`` is its Taylor series.
``log(2^k m) = k ln 2 + log m`` with ``m`` in ``[sqrt(1/2), sqrt(2))``, where ``log m`` is the series of
``log((1 + s) / (1 - s)) = 2 (s + s^3 / 3 + ...)``, ``s = (m - 1) / (m + 1)``.
"""

import math
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

LOG2E = 1.4426950408889634
LN2 = 0.6931471805599453
LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")
"""The first 32 bits of ln 2, whose product with an exponent is exact; ``LN2_LOW`` has the next bits."""
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
EXPM1_FAR = 40.0
"""Above this bound ``exp(x) - 1`` rounds to ``exp(x)``; below its negative, to -1."""
_MAX_FACTORS = 16
SQRT_HALF = 0.7071067811865476
EXP_INFINITE, EXP_ZERO = 709.782712893384, -745.1332191019412
"""``exp`` is infinite above the first bound and zero below the second."""

# coefficients of the Taylor series of exp, and of the series of log in s
E2, E3, E4, E5, E6, E7, E8, E9, E10, E11, E12, E13 = (1.0 / math.factorial(n) for n in range(2, 14))
L1, L2, L3, L4, L5, L6, L7, L8, L9, L10 = (2.0 / (2 * n + 1) for n in range(1, 11))


def expm1_series(r: Any) -> Any:
    """Return ``exp(r) - 1`` for ``|r| <= ln 2 / 2``."""
    # odd and even powers separately: the processor computes the two chains of operations at the same time
    z = r * r
    odd = E3 + z * (E5 + z * (E7 + z * (E9 + z * (E11 + z * E13))))
    even = E2 + z * (E4 + z * (E6 + z * (E8 + z * (E10 + z * E12))))
    return r + z * (even + r * odd)


def log_series(f: Any, high: Any, low: Any) -> Any:
    """Return ``high + low + log(1 + f)`` for ``1 + f`` in ``[sqrt(1/2), sqrt(2))``, adding the smallest terms first."""
    s = f / (2.0 + f)
    z = s * s
    v = z * z
    odd = L1 + v * (L3 + v * (L5 + v * (L7 + v * L9)))
    even = L2 + v * (L4 + v * (L6 + v * (L8 + v * L10)))
    half = 0.5 * f * f
    # log(1 + f) = f - half + s (half + z (odd + z even)), as 2 s = f - s f
    return high + (f - (half - (s * (half + z * (odd + z * even)) + low)))


def exp(x: ArrayLike) -> Any:
    """Return ``e**x``."""
    x = np.asarray(x, dtype=np.float64)
    inside = np.clip(x, EXP_ZERO - 1.0, EXP_INFINITE + 1.0)
    k = np.rint(np.where(np.isnan(x), 0.0, inside) * LOG2E)
    r = (inside - k * LN2_HIGH) - k * LN2_LOW
    out = _scaled(1.0 + expm1_series(r), k)
    return np.where(x > EXP_INFINITE, np.inf, np.where(x < EXP_ZERO, 0.0, out))[()]


def exp2(x: ArrayLike) -> Any:
    """Return ``2**x``, exact for integers."""
    x = np.asarray(x, dtype=np.float64)
    k = np.rint(np.clip(np.nan_to_num(x), -1100.0, 1100.0))
    return _scaled(1.0 + expm1_series((np.clip(x, -1100.0, 1100.0) - k) * LN2), k)[()]


def expm1(x: ArrayLike) -> Any:
    """Return ``e**x - 1``, precise near 0."""
    x = np.asarray(x, dtype=np.float64)
    far = np.abs(x) > EXPM1_FAR
    inside = np.where(far | np.isnan(x), 0.0, x)
    k = np.rint(inside * LOG2E)
    power = _power(k)
    near = power * expm1_series((inside - k * LN2_HIGH) - k * LN2_LOW) + (power - 1.0)
    return np.where(far | np.isnan(x), exp(x) - 1.0, near)[()]


def log(x: ArrayLike) -> Any:
    """Return the natural logarithm; -inf at 0 and NaN for negative numbers, without a warning."""
    # a fast path for single numbers, which bandits need: an array of one element takes twenty times as long
    if isinstance(x, (int, float)) and 0.0 < x < np.inf:
        m, exponent = math.frexp(x)
        if m < SQRT_HALF:
            m, exponent = 2.0 * m, exponent - 1
        return np.float64(log_series(m - 1.0, exponent * LN2_HIGH, exponent * LN2_LOW))
    x = np.asarray(x, dtype=np.float64)
    k, f = _split(x)
    return _at_the_ends(x, log_series(f, k * LN2_HIGH, k * LN2_LOW))[()]


def log2(x: ArrayLike) -> Any:
    """Return the logarithm to base 2, exact for powers of two."""
    x = np.asarray(x, dtype=np.float64)
    k, f = _split(x)
    return _at_the_ends(x, k + log_series(f, 0.0 * k, 0.0 * k) * LOG2E)[()]


def log1p(x: ArrayLike) -> Any:
    """Return ``log(1 + x)``, precise near 0."""
    x = np.asarray(x, dtype=np.float64)
    u = 1.0 + x
    with np.errstate(invalid="ignore", divide="ignore"):
        # the rounding error of u, to first order
        lost = np.where(np.isfinite(u) & (u > 0.0), (x - (u - 1.0)) / u, 0.0)
    return (log(u) + lost)[()]


def power(x: ArrayLike, p: float) -> Any:
    """Return ``x**p`` for positive numbers: by products if ``p`` is a small integer, otherwise by a logarithm."""
    x = np.asarray(x, dtype=np.float64)
    if p != int(p) or abs(p) > _MAX_FACTORS:
        return exp(p * log(x))
    out = np.ones_like(x)
    for _ in range(abs(int(p))):
        out = out * x
    return (out if p >= 0 else 1.0 / out)[()]


def geomspace(first: float, last: float, n: int) -> NDArray[np.float64]:
    """Return ``n`` positive numbers, evenly spaced on a log scale; powers of ten are exact."""
    start = Decimal(repr(float(first)))
    ratio = Decimal(repr(float(last))) / start
    return np.array([float(start * ratio ** (Decimal(i) / max(1, n - 1))) for i in range(n)])


def expit(x: ArrayLike) -> Any:
    """Return ``1 / (1 + e**-x)``."""
    x = np.asarray(x, dtype=np.float64)
    small = exp(-np.abs(x))  # at most 1: no overflow for either sign
    return (np.where(x >= 0, 1.0, small) / (1.0 + small))[()]


def _scaled(value: Any, k: Any) -> Any:
    """Return ``value * 2**k`` in two factors, as ``2**k`` may be out of range although the result is not."""
    first = np.rint(0.5 * k)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return (value * _power(first)) * _power(k - first)


def _power(k: Any) -> Any:
    """Return ``2**k`` for integral ``k`` from -1022 to 1023, by the exponent bits of a float64."""
    return ((k.astype(np.int64) + 1023) << 52).view(np.float64)


def _split(x: Any) -> Any:
    """Return ``k`` and ``f`` of ``x = 2^k (1 + f)`` with ``1 + f`` in ``[sqrt(1/2), sqrt(2))``."""
    m, k = np.frexp(np.where((x > 0.0) & np.isfinite(x), x, 1.0))
    low = m < SQRT_HALF
    return np.where(low, k - 1, k).astype(np.float64), np.where(low, 2.0 * m, m) - 1.0


def _at_the_ends(x: Any, value: Any) -> Any:
    """Return the logarithms ``value``, corrected where ``x`` is infinite, zero or negative."""
    return np.where(x > 0.0, np.where(x == np.inf, np.inf, value), np.where(x == 0.0, -np.inf, np.nan))
