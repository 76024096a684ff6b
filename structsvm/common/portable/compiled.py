"""The functions of :mod:`structsvm.common.portable.elementary` for single numbers in kernels, with the same bits."""

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic
from numpy.typing import ArrayLike

from structsvm.common.kernel import kernel
from structsvm.common.portable import elementary
from structsvm.common.portable.elementary import (
    EXP_INFINITE,
    EXP_ZERO,
    EXPM1_FAR,
    LN2,
    LN2_HIGH,
    LN2_LOW,
    LOG2E,
    SQRT_HALF,
)

HALF_LOG_TWO_PI = 0.9189385332046727

_ROUND = 6755399441055744.0
"""1.5 * 2^52: adding this number and subtracting it again rounds to an integer, because the sum has no bits for
fractions."""

_expm1_series = kernel(inline="always")(elementary.expm1_series)
_log_series = kernel(inline="always")(elementary.log_series)


def _emit_bits(typingctx: object, x: ArrayLike) -> Any:
    """Return the bits of a float64 as an int64."""
    return types.int64(types.float64), lambda context, builder, signature, arguments: builder.bitcast(
        arguments[0], ir.IntType(64)
    )


def _emit_number(typingctx: object, bits: Any) -> Any:
    """Return the float64 that has the bits of an int64."""
    return types.float64(types.int64), lambda context, builder, signature, arguments: builder.bitcast(
        arguments[0], ir.DoubleType()
    )


_bits: Any = intrinsic(_emit_bits)
_number: Any = intrinsic(_emit_number)
if getattr(config, "DISABLE_JIT", 0):  # kernels are Python functions, which cannot call intrinsics

    def _bits(x: float) -> int:
        return int(np.float64(x).view(np.int64))

    def _number(bits: int) -> float:
        return float(np.int64(bits).view(np.float64))


@kernel(inline="always")
def _power(k):  # type: ignore[no-untyped-def]
    """Return ``2**k`` for an integral ``k`` from -1022 to 1023: the exponent bits of a float64 are ``k + 1023``."""
    return _number((int(k) + 1023) << 52)


@kernel(inline="always")
def _scaled(value, k):  # type: ignore[no-untyped-def]
    """Return ``value * 2**k`` in two factors, as ``2**k`` may be out of range although the result is not."""
    first = (0.5 * k + _ROUND) - _ROUND
    return (value * _power(first)) * _power(k - first)


@kernel
def exp(number):  # type: ignore[no-untyped-def]
    x = float(number)
    if not x <= EXP_INFINITE:
        return x * math.inf  # infinity, or NaN for NaN
    if x < EXP_ZERO:
        return 0.0
    # x = k ln 2 + r; the product with the high part of ln 2 is exact, so that r keeps its digits
    k = (x * LOG2E + _ROUND) - _ROUND
    return _scaled(1.0 + _expm1_series((x - k * LN2_HIGH) - k * LN2_LOW), k)


@kernel
def exp2(x):  # type: ignore[no-untyped-def]
    x = min(max(x, -1100.0), 1100.0)
    k = (x + _ROUND) - _ROUND
    return _scaled(1.0 + _expm1_series((x - k) * LN2), k)


@kernel
def expm1(x):  # type: ignore[no-untyped-def]
    if not abs(x) <= EXPM1_FAR:
        return exp(x) - 1.0
    # 2^k e^r - 1 = 2^k (e^r - 1) + (2^k - 1), without cancellation
    k = (x * LOG2E + _ROUND) - _ROUND
    power = _power(k)
    return power * _expm1_series((x - k * LN2_HIGH) - k * LN2_LOW) + (power - 1.0)


@kernel(inline="always")
def _log(number, in_twos):  # type: ignore[no-untyped-def]
    x = float(number)
    if not x > 0.0:
        return -math.inf if x == 0.0 else math.nan
    if x == math.inf:
        return x
    k = 0.0
    if x < 2.2250738585072014e-308:  # subnormal, without an exponent in its bits: multiplied by 2^54
        x *= 18014398509481984.0
        k = -54.0
    # exponent and mantissa: x = 2^k m with m in [1/2, 1), then in [sqrt(1/2), sqrt(2))
    bits = _bits(x)
    k += float((bits >> 52) - 1022)
    m = _number((bits & 0xFFFFFFFFFFFFF) | (1022 << 52))
    if m < SQRT_HALF:
        k -= 1.0
        m *= 2.0
    if in_twos:
        return k + _log_series(m - 1.0, 0.0, 0.0) * LOG2E
    return _log_series(m - 1.0, k * LN2_HIGH, k * LN2_LOW)


@kernel
def log(x):  # type: ignore[no-untyped-def]
    return _log(x, False)


@kernel
def log2(x):  # type: ignore[no-untyped-def]
    return _log(x, True)


@kernel
def lgamma(number):  # type: ignore[no-untyped-def]
    """Return the logarithm of the gamma function for ``number >= 1``."""
    # Stirling's series is precise for x >= 16; below, log Gamma(x) = log Gamma(x + n) - log(x (x + 1) ... (x + n - 1))
    x, product = float(number), 1.0
    while x < 16.0:
        product *= x
        x += 1.0
    z = 1.0 / (x * x)
    series = z * (1 / 1260 - z * (1 / 1680 - z * (1 / 1188 - z * (691 / 360360 - z / 156))))
    return (
        ((x - 0.5) * log(x) - x)
        + (HALF_LOG_TWO_PI + (1 / 12 - z * (1 / 360) + z * series) / x)
        - log(product)
    )


@kernel
def log1p(x):  # type: ignore[no-untyped-def]
    u = 1.0 + x
    out = log(u)
    if u > 0.0 and u < math.inf:
        out += (x - (u - 1.0)) / u  # the rounding error of u, to first order
    return out
