"""A warm-started active-set method for the small dual.

The Gram matrices of cutting planes are singular (more planes than features, duplicate planes) and badly scaled (C from
1e-6 to 1e8). This method never factorises a singular matrix. Each group is treated as a simplex: the masses of its
planes, and of a slack vertex that is a plane of zeros with loss zero, sum to exactly ``cap``. The vertices in use
("free") are kept affinely independent, as is the corral in Wolfe's minimum-norm-point algorithm. The Hessian reduced to
their face is therefore positive definite; its Cholesky factor is updated when a vertex enters or leaves.

Each round computes the gradient and the duality gap, adds the vertex with the largest estimated gain, and takes Newton
steps on the face. A step ends at the first coordinate that reaches zero, whose vertex then leaves. A vertex that
depends affinely on the free vertices adds no curvature: a move along the dependency, until a vertex leaves, precedes
its entry. Free coordinates are strictly positive, so that every step has positive length, the value increases, no face
is visited twice, and the method is finite without an anti-cycling rule. As rounding can invalidate this argument, the
number of rounds without gain is limited.
"""

from typing import Any

import numpy as np

from structsvm.common.interpreted import run
from structsvm.common.kernel import kernel
from structsvm.common.portable.sums import dot
from structsvm.protocols import Float, Int, QPResult
from structsvm.qp.dual import certify_gradient, check, feasible, refuse


def solve(
    gram: Float, loss: Float, group: Int, cap: Float, alpha0: Float | None = None, *, tol: float = 1e-10
) -> QPResult:
    """Maximise ``loss . alpha - 1/2 alpha' gram alpha`` over ``alpha >= 0``, with a sum of at most ``cap`` in each
    group.

    ``alpha0`` is an optional start, which need not be feasible; it is discarded if its value is negative. The absolute
    gap of the result is at most ``tol * value``, or as small as rounding allows.
    """
    # This is the dual of a structural SVM over its working set, with gram = G G' for planes G. A single group with cap
    # C gives the 1-slack dual, one group per query the n-slack dual. With g = loss - gram alpha the gap is sum_j cap_j
    # max(0, max_{i in j} g_i) - g . alpha, or a smaller value obtained by rescaling w (``dual._gap``). The rounding
    # error of g_i is up to eps (|loss_i| + sum_j |gram_ij| alpha_j), so that a gap below the sum over groups of the cap
    # times the largest of these errors cannot be certified. If the norms of planes differ by factors above 1e4, the
    # relative gap may be 1e-8 instead of tol.
    gram, loss, group, cap = check(gram, loss, group, cap)
    n = len(loss)
    if n == 0:
        return QPResult(np.zeros(0), 0.0, 0.0)
    start = feasible(alpha0, group, cap)
    # a flat view, because the kernel reads a contiguous array; rows may be longer than n (a block of a larger array)
    stride = gram.strides[0] // 8 if n > 1 else n
    flat = np.lib.stride_tricks.as_strided(gram, ((n - 1) * stride + n,), (8,), writeable=False)
    alpha, gradient = _climb(flat, stride, loss, group, cap, start, float(tol))
    gradient = gradient[:n]
    if not np.all(np.isfinite(gradient)):
        refuse(gram, loss)
    result = certify_gradient(loss, gradient, group, cap, feasible(alpha, group, cap))
    if result.value < 0:  # possible only by rounding
        idle = certify_gradient(loss, loss, group, cap, np.zeros(n))
        return idle if idle.gap <= result.gap else result
    return result


# ---- kernels -----------------------------------------------------------------------------------------------
# Vertices are numbered 0..n-1 (planes) and n + j (the slack of group j, a plane of zeros with loss 0).
# `base[j]` is a vertex of group j with alpha > 0; `free[:k]` are the other vertices with alpha > 0. When a free
# coordinate increases, the base of its group decreases by as much, so that the sum of each group remains its cap.
# The reduced Hessian is Z' K Z, where Z has the columns e_i - e_base(group of i) for i in free; `R` is its upper
# Cholesky factor. `group` and `alpha` include the slacks. `r` is the gradient reduced to the face, `g` the gradient.
# Between calls, every vertex with alpha > 0 is free or a base, and R' R is the reduced Hessian.


@kernel(inline="always")
def _copy(source, target, n):  # type: ignore[no-untyped-def]
    """Copy ``source[:n]`` to ``target[:n]`` in a loop, as Numba takes seconds to compile a slice assignment."""
    for i in range(n):
        target[i] = source[i]


@kernel
def _entry(gram, stride, n, i, j):  # type: ignore[no-untyped-def]
    """Return the inner product of two vertices, which is 0 if one of them is a slack."""
    return gram[i * stride + j] if i < n and j < n else 0.0


@kernel(inline="always")
def _drop_column(R, free, r, k, c):  # type: ignore[no-untyped-def]
    """Delete column c of the factor, restore the triangle by Givens rotations, and return the new size."""
    # The loops shift the later columns to the left. Each of them then has one entry below the diagonal; a rotation of
    # two adjacent rows eliminates this entry and leaves R' R unchanged.
    for row in range(c + 1):
        for j in range(c, k - 1):
            R[row, j] = R[row, j + 1]
    for row in range(c + 1, k):
        for j in range(row - 1, k - 1):
            R[row, j] = R[row, j + 1]
    for j in range(c, k - 1):
        free[j] = free[j + 1]
        r[j] = r[j + 1]
    for j in range(c, k - 1):
        a, b = R[j, j], R[j + 1, j]
        most = max(abs(a), abs(b))
        if most > 0.0:
            # not np.hypot, whose last digit depends on the system's math library
            cos, sin = a / most, b / most
            h = most * np.sqrt(cos * cos + sin * sin)
            cos, sin = a / h, b / h
            R[j, j] = h
            R[j + 1, j] = 0.0
            for col in range(j + 1, k - 1):
                x, y = R[j, col], R[j + 1, col]
                R[j, col] = cos * x + sin * y
                R[j + 1, col] = cos * y - sin * x
    return k - 1


@kernel
def _remove(v, group, base, free, R, r, k):  # type: ignore[no-untyped-def]
    """Remove vertex v, whose alpha is 0; return the new size of the face."""
    # A free vertex is removed with its column. A base is replaced by the first free vertex of its group, whose column
    # is subtracted from the columns of the other free vertices of the group and then removed; without a free vertex,
    # the base becomes -1.
    j = group[v]
    is_base = base[j] == v
    if is_base:
        base[j] = -1
    first = k
    for c in range(k):
        if not is_base:
            if free[c] == v:
                first = c
        elif group[free[c]] == j:
            if first == k:
                first = c
                base[j] = free[c]
            else:
                # e_i - e_new = (e_i - e_old) - (e_new - e_old); as first < c, R remains triangular
                for row in range(first + 1):
                    R[row, c] -= R[row, first]
                r[c] -= r[first]
    if first == k:
        return k
    return _drop_column(R, free, r, k, first)


@kernel
def _move(d, k, v, limit, group, base, free, alpha, dbase, gone):  # type: ignore[no-untyped-def]
    """Move along d by at most ``limit`` or until a coordinate reaches zero; return the step and the number of zeros."""
    # ``d[:k]`` belongs to the free vertices, and d[k] to v if v >= 0. The vertices that reached zero are listed in
    # ``gone``, bases last. dbase[j], the change of the base of group j, is minus the sum of d over the free vertices of
    # the group.
    for c in range(k):
        dbase[group[free[c]]] = 0.0
    if v >= 0:
        dbase[group[v]] = 0.0
    for c in range(k):
        dbase[group[free[c]]] -= d[c]
    if v >= 0:
        dbase[group[v]] -= d[k]
    step = limit
    m = k + 1 if v >= 0 else k
    for c in range(m):
        u = free[c] if c < k else v
        if d[c] < 0.0:
            step = min(step, alpha[u] / -d[c])
        j = group[u]
        if dbase[j] < 0.0:
            step = min(step, alpha[base[j]] / -dbase[j])
    # a coordinate that differs from zero only by rounding is set to zero
    n_gone = 0
    last = step * (1.0 + 1e-14)
    for c in range(m):
        u = free[c] if c < k else v
        if d[c] < 0.0 and alpha[u] <= -d[c] * last:
            alpha[u] = 0.0
            gone[n_gone] = u
            n_gone += 1
        else:
            alpha[u] += step * d[c]
    for c in range(m):
        j = group[free[c] if c < k else v]
        if dbase[j] != 0.0:
            u = base[j]
            if dbase[j] < 0.0 and alpha[u] <= -dbase[j] * last:
                alpha[u] = 0.0
                gone[n_gone] = u
                n_gone += 1
            else:
                alpha[u] += step * dbase[j]
            dbase[j] = 0.0
    return step, n_gone


@kernel(inline="always")
def _back_solve(R, k, x):  # type: ignore[no-untyped-def]
    """Replace x by R^-1 x."""
    for row in range(k - 1, -1, -1):
        x[row] = (x[row] - dot(R[row, row + 1 : k], x[row + 1 : k])) / R[row, row]


@kernel(inline="always")
def _forward_solve(R, k, x):  # type: ignore[no-untyped-def]
    """Replace x by R'^-1 x."""
    for row in range(k):
        x[row] /= R[row, row]
        t = x[row]
        for col in range(row + 1, k):
            x[col] -= t * R[row, col]


@kernel(inline="always")
def _enter(v, gram, stride, n, group, base, free, alpha, g, R, r, k, d, dbase, gone):  # type: ignore[no-untyped-def]
    """Make v free, and return the new size of the face."""
    # With z_v = e_v - e_base, the new column of the factor is R'^-1 Z' K z_v. Its diagonal is the square root of
    # ``pivot`` = |z_v|^2 - |column|^2, the squared distance of z_v from the span of the face. If the pivot is within
    # rounding of zero, v depends on the face, which defines a direction without curvature: move uphill along this
    # direction until a vertex leaves, then try again. v itself may be the vertex that leaves.
    while True:
        p = base[group[v]]
        for c in range(k):
            u = free[c]
            q = base[group[u]]
            d[c] = (_entry(gram, stride, n, v, u) - _entry(gram, stride, n, p, u)) - (
                _entry(gram, stride, n, v, q) - _entry(gram, stride, n, p, q)
            )
        kvv, kpp = _entry(gram, stride, n, v, v), _entry(gram, stride, n, p, p)
        _forward_solve(R, k, d)
        pivot = (kvv - _entry(gram, stride, n, v, p)) + (kpp - _entry(gram, stride, n, v, p))
        for c in range(k):
            pivot -= d[c] * d[c]
        independent = pivot > 3e-14 * (kvv + kpp)
        if not independent:
            for c in range(k):
                r[c] = d[c]  # a copy of the column, in case v is appended below
                d[c] = -d[c]
            _back_solve(R, k, d)
            d[k] = 1.0
            slope = g[v] - g[p]
            for c in range(k):
                slope += (g[free[c]] - g[base[group[free[c]]]]) * d[c]
            if slope < 0.0 and alpha[v] > 0.0:
                for c in range(k + 1):
                    d[c] = -d[c]
                slope = -slope
            # A tiny pivot may be a true curvature. If this curvature would end the step before a coordinate reaches
            # zero, v is appended nevertheless.
            reach = np.inf
            for c in range(k + 1):
                if d[c] < 0.0:
                    reach = min(reach, alpha[free[c] if c < k else v] / -d[c])
            if pivot <= 0.0 or slope <= 0.0 or 2.0 * slope >= pivot * min(reach, alpha[p]):
                _, n_gone = _move(d, k, v, np.inf, group, base, free, alpha, dbase, gone)
                stays = True
                for i in range(n_gone):
                    if gone[i] == v:
                        stays = False
                    else:
                        k = _remove(gone[i], group, base, free, R, r, k)
                if base[group[v]] < 0:
                    base[group[v]] = v if stays else p
                    return k
                if not stays or n_gone == 0:
                    return k
                continue
            for c in range(k):
                d[c] = r[c]
        for c in range(k):
            R[c, k] = d[c]
            R[k, c] = 0.0
        R[k, k] = np.sqrt(pivot)
        free[k] = v
        return k + 1


@kernel
def _follow(gram, stride, n, alpha, origin, g):  # type: ignore[no-untyped-def]
    """Update the gradient from the alpha at which it was computed (``origin``) to ``alpha``."""
    # read only the columns of the Gram matrix whose alpha has changed, which are few per round
    for j in range(n):
        change = alpha[j] - origin[j]
        if change != 0.0:
            first = j * stride
            for i in range(n):
                g[i] -= change * gram[first + i]
            origin[j] = alpha[j]


def _climb(
    gram: Float, stride: int, loss: Float, plane_group: Int, cap: Float, start: Float, tol: float
) -> tuple[Float, Float]:
    """Run the active-set method from a feasible start; return alpha and the gradient at alpha."""
    n, n_groups = len(loss), len(cap)
    floats = tuple(np.zeros((12, n + n_groups + 1)))
    ints = tuple(np.empty((4, 2 * n + n_groups + 2), np.int64))
    R = np.empty((n, n))  # the operating system allocates only the part that is used
    # estimated seconds without compilation: a round takes a few microseconds per plane, and more planes need more
    # rounds
    in_python = n * n * (1e-6 + 1e-8 * n)
    run(_iterate, in_python, gram, stride, loss, plane_group, cap, start, tol, floats, ints, R)
    return floats[10][:n], floats[3][:n]


@kernel
def _iterate(gram, stride, loss, plane_group, cap, start, tol, floats, ints, R):  # type: ignore[no-untyped-def]
    """Run the rounds described in the module docstring; return alpha and the gradient in ``floats``."""
    # The buffers are arguments, because code that allocates takes long to compile.
    alpha, root, square, g, origin, r, d, dbase, top, largest, best_alpha, peak = floats
    group, base, free, gone = ints
    n, n_groups = len(loss), len(cap)
    _copy(plane_group, group, n)
    _copy(start, alpha, n)
    for j in range(n_groups):
        group[n + j] = j
        alpha[n + j] = cap[j]
        base[j] = n + j
    # the slack of a group has the rest of the cap as its mass
    for i in range(n):
        alpha[n + group[i]] -= alpha[i]
    for j in range(n_groups):
        if alpha[n + j] <= 1e-15 * cap[j]:
            alpha[n + j] = 0.0
    for i in range(n):
        square[i] = gram[i * stride + i]
        root[i] = np.sqrt(max(square[i], 0.0))

    # typed, as with literals Numba would compile two versions of _remove and four of _move, in 5.6 s instead of 4.2 s
    k: Any = np.int64(0)
    none: Any = np.int64(-1)
    best_gap = np.inf
    _copy(start, best_alpha, n)
    _copy(alpha, peak, n + n_groups)
    peak_value, last_value = -np.inf, -np.inf
    rebuild, recompute, fresh, refined = True, False, False, False
    idle = 0
    for turn in range(1000 + 100 * (n + n_groups)):
        if rebuild or recompute or idle > 0 or turn % 8 == 0:
            _copy(loss, g, n)
            origin[:] = 0.0
            fresh, recompute = True, False
            _follow(gram, stride, n, alpha, origin, g)
        if turn == 0:
            value = 0.0
            for i in range(n):
                value += alpha[i] * (loss[i] + g[i])
            # Discard a start with a negative value: for a huge C, rounding may prevent recovery from such a start.
            if value < 0.0:
                alpha[:] = 0.0
                for j in range(n_groups):
                    alpha[n + j] = cap[j]
                _follow(gram, stride, n, alpha, origin, g)
        if rebuild:
            # Rebuild the face from all vertices with mass, to remove rounding errors from the factor. The base of a
            # group is part of every difference. The best base is the slack (the zero plane), or else the plane with the
            # smallest norm, as it causes the least cancellation.
            k = np.int64(0)
            largest[:] = np.inf
            for v in range(n):
                if alpha[v] > 0.0 and root[v] < largest[group[v]]:
                    largest[group[v]] = root[v]
                    base[group[v]] = v
            for j in range(n_groups):
                if alpha[n + j] > 0.0 or largest[j] == np.inf:
                    base[j] = n + j
            first, last = np.int64(0), n  # all vertices in use enter, one after another
        else:
            # Compute the duality gap, sum_j cap_j max(0, max_{i in j} g_i) - g . alpha, and ``rounding``, a bound on
            # its error due to rounding of g (see ``solve``). The terms of g_i are bounded by |gram_ij| <= root_i
            # root_j.
            value, gap, weight = 0.0, 0.0, 0.0
            for i in range(n):
                weight += root[i] * alpha[i]
            top[:] = 0.0
            largest[:] = 0.0
            for i in range(n):
                j = group[i]
                value += 0.5 * alpha[i] * (loss[i] + g[i])
                gap -= alpha[i] * g[i]
                top[j] = max(top[j], g[i])
                largest[j] = max(largest[j], abs(loss[i]) + root[i] * weight)
            rounding = 0.0
            for j in range(n_groups):
                gap += cap[j] * top[j]
                rounding += 2.220446049250313e-16 * cap[j] * largest[j]
            if gap < best_gap:
                _copy(alpha, best_alpha, n)
            # Stop only if the gap was computed from a recomputed gradient, not from an updated one.
            if gap <= max(tol * value, rounding):
                if fresh:
                    _copy(alpha, best_alpha, n)
                    break
                recompute = True
                continue
            # In exact arithmetic the value never decreases. If it decreases by rounding, return to the best point so
            # far.
            if value < peak_value - 1e-9 * abs(peak_value) - rounding:
                _copy(peak, alpha, n + n_groups)
                rebuild = True
            elif value >= peak_value:
                _copy(alpha, peak, n + n_groups)
                peak_value = value
            # ``idle`` counts rounds without a smaller gap or a higher value: rebuild after 7, 15 and 23 of them; give
            # up after more than 24.
            if gap < 0.9 * best_gap or value > last_value + 1e-14 * abs(last_value):
                idle = 0
            else:
                idle += 1
                if idle % 8 == 7:
                    if idle > 24:
                        break
                    rebuild = True
            best_gap, last_value = min(gap, best_gap), peak_value
            if rebuild:
                continue
            # The vertex with the largest gain enters. The gain of a vertex is the maximum of rise t - curvature t^2 / 2
            # over 0 <= t <= cap, where mass t moves to the vertex from the base of its group.
            entering, most = none, 0.0
            for v in range(n + n_groups):
                j = group[v]
                if alpha[v] == 0.0 and cap[j] > 0.0:
                    p = base[j]
                    rise = g[v] - g[p]
                    if rise > 0.0:
                        curvature = square[v] + square[p] - 2.0 * _entry(gram, stride, n, p, v)
                        if curvature * cap[j] <= rise:
                            gain = (rise - 0.5 * curvature * cap[j]) * cap[j]
                        else:
                            gain = 0.5 * rise * rise / curvature
                        if gain > most:
                            entering, most = v, gain
            # Make a second Newton step before a vertex enters if the gradient on the face after the first step is not
            # small compared with the slope towards the vertex.
            inside = 0.0
            for c in range(k):
                j = group[free[c]]
                inside = max(inside, cap[j] * abs(g[free[c]] - g[base[j]]))
            if entering < 0 or (
                not refined and inside > 0.1 * cap[group[entering]] * (g[entering] - g[base[group[entering]]])
            ):
                entering, refined = none, True
            else:
                refined = False
            first, last = entering, (entering + 1 if entering >= 0 else entering)
        # add the entering vertex, or, in a rebuild, all vertices with mass that are not a base
        for v in range(first, last):
            if not rebuild or (alpha[v] > 0.0 and base[group[v]] != v):
                k = _enter(v, gram, stride, n, group, base, free, alpha, g, R, r, k, d, dbase, gone)
        rebuild = False
        for c in range(k):
            r[c] = g[free[c]] - g[base[group[free[c]]]]
        # Make Newton steps on the face by solving H d = r with the factor. A step that ends when a coordinate reaches
        # zero is followed by another on the smaller face. As the value is quadratic, the reduced gradient is then r
        # times (1 - step).
        while k > 0:
            _copy(r, d, k)
            _forward_solve(R, k, d)
            _back_solve(R, k, d)
            step, n_gone = _move(d, k, none, 1.0, group, base, free, alpha, dbase, gone)
            for c in range(k):
                r[c] *= 1.0 - step
            for i in range(n_gone):
                v = gone[i]
                k = _remove(v, group, base, free, R, r, k)
                if base[group[v]] < 0:
                    base[group[v]] = v
            if step >= 1.0 or n_gone == 0:
                break
        _follow(gram, stride, n, alpha, origin, g)
        fresh = False
    _copy(loss, g, n)
    origin[:] = 0.0
    _follow(gram, stride, n, best_alpha, origin, g)
