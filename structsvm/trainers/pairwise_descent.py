"""Stochastic gradient descent on pairs of documents, with any number of views and an optional penalty on disagreement.

The same kernels implement SPD (one view), SPD-MV (independent views) and LCRA-k-l (views that agree on unlabelled
pairs).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from scipy import sparse

from structsvm.common.kernel import kernel
from structsvm.common.portable.sums import dot_at
from structsvm.protocols import Float, Int
from structsvm.queries import offsets_of, row_groups
from structsvm.trainers.pair_index import PairIndex, draw_into, draw_pairs, stream_key

Loss = Literal["hinge", "squared"]

_NORM_PAIRS = 1000
"""Number of pairs sampled to estimate a mean squared norm. The estimate sets step sizes, for which an error of a few
percent is harmless."""


class Views(NamedTuple):
    """Concatenated columns of all views: view ``v`` has the features ``columns[starts[v]:starts[v + 1]]``."""

    columns: Int
    starts: Int

    @classmethod
    def of(cls, columns: list[Int]) -> Self:
        return cls(np.concatenate(columns).astype(np.int64), offsets_of([len(c) for c in columns]))


class Agreement(NamedTuple):
    """A penalty with factor ``mu`` on the disagreement of views on unlabelled pairs, ``l`` of which are sampled per
    step."""

    mu: float
    l: int  # noqa: E741 (the paper's name)
    pairs: PairIndex
    X: Any = None  #: the rows that ``pairs`` refers to; None means the labelled rows


@dataclass(frozen=True, eq=False)
class Descent:
    """The state of a descent. Continuing from a stored state gives the same bits as a descent without interruption.

    The weights of view ``v`` are ``scale[v] * direction``, so that they are all shrunk by one multiplication. Their
    weighted sum over time is ``total[v] * direction - correction``. The cost of a step is therefore proportional to the
    number of non-zeros of its pairs.
    """

    direction: Float
    correction: Float
    scale: Float
    total: Float
    t: int  #: number of steps so far
    seed: int  #: seed of the streams from which pairs are sampled


def mean_squared_norms(X: Any, index: PairIndex, views: Views, seed: int, y: Float | None = None) -> Float:
    """Return, per view, the mean of ``||p^v||^2`` over pairs with feature differences ``p^v``, or of ``||y p^v||^2``
    with labels.

    The means are estimated from ``_NORM_PAIRS`` sampled pairs.
    """
    better, worse = draw_pairs(index, seed, 0, _NORM_PAIRS, stream=2)
    factor = (np.ones(_NORM_PAIRS) if y is None else y[better] - y[worse])[:, None]
    out = np.empty(views.starts.shape[0] - 1)
    for v in range(out.shape[0]):
        total = 0.0
        # a few pairs at a time, to limit memory if the matrix has many columns
        for at in range(0, _NORM_PAIRS, 100):
            first, second = (X[rows[at : at + 100]].astype(np.float64) for rows in (better, worse))
            part = (first - second)[:, views.columns[views.starts[v] : views.starts[v + 1]]]
            if bool(sparse.issparse(part)):
                part = sparse.csr_matrix(part.multiply(factor[at : at + 100]))
                total += float(part.multiply(part).sum())
            else:
                total += float(np.square(part * factor[at : at + 100]).sum())
        out[v] = total / _NORM_PAIRS
    return out


def start(views: Views, seed: int) -> Descent:
    """Return the initial state of a descent, with zero weights."""
    n, m = views.columns.shape[0], views.starts.shape[0] - 1
    return Descent(np.zeros(n), np.zeros(n), np.ones(m), np.zeros(m), 0, seed)


def view_weights(state: Descent, views: Views, *, average: bool) -> list[Float]:
    """Return the weights of each view: those of the last step, or their mean over time, in which step ``t`` has weight
    ``t``."""
    out = []
    for v in range(views.starts.shape[0] - 1):
        part = slice(views.starts[v], views.starts[v + 1])
        if average and state.t:
            summed = state.total[v] * state.direction[part] - state.correction[part]
            out.append(summed / (0.5 * state.t * (state.t + 1.0)))
        else:
            out.append(state.scale[v] * state.direction[part])
    return out


def descend(
    X: Any,
    y: Float,
    index: PairIndex,
    views: Views,
    state: Descent,
    n_steps: int,
    *,
    eta_0: Float,
    lam: float,
    loss: Loss = "hinge",
    k: int = 1,
    agreement: Agreement | None = None,
) -> Descent:
    """Make ``n_steps`` steps of LCRA-k-l, each on ``k`` pairs of ``index``; ``eta_0`` is the initial step size of each
    view.

    Without ``agreement`` the views are independent; with a single view this is SPD.
    """
    # A step follows the negative gradient of the terms of its batch in (Tsivtsivadze, Hofmann and Heskes, (1))
    #     sum_v [ sum_P loss(p^v, y; w^v) + lam/2 ||w^v||^2 ] + mu sum_{v != u} sum_{P^} (w^v.p^v - w^u.p^u)^2
    # at the weights of all views before the step. (The update rules printed in the paper have wrong signs.) The step
    # size of view v is eta_0[v] / (1 + eta_0[v] lam t), but at most the inverse of a bound on the curvature of the
    # batch: 4 mu M sum_{P^} max_u ||p^u||^2 for the agreement plus sum_P ||p^v||^2 for the squared loss. The descent
    # therefore does not diverge, whatever the scale of the features.
    m = views.starts.shape[0] - 1
    if agreement is None or agreement.mu == 0 or agreement.l == 0 or m == 1:
        agreement = Agreement(0.0, 0, index)
    U = X if agreement.X is None else agreement.X
    direction, correction = state.direction.copy(), state.correction.copy()
    scale, total = state.scale.copy(), state.total.copy()
    common = (
        y,
        tuple(index),
        tuple(agreement.pairs),
        stream_key(state.seed, 0),
        stream_key(state.seed, 1),
        views.starts,
        np.ascontiguousarray(eta_0, dtype=np.float64),
        float(lam),
        loss == "squared",
        int(k),
        float(agreement.mu),
        int(agreement.l),
        state.t,
        int(n_steps),
        direction,
        correction,
        scale,
        total,
    )
    if bool(sparse.issparse(X)):  # bool() avoids a type guard that narrows X to a type without attributes
        feature, position, view_of = _positions_of_features(views, X.shape[1])
        widest = max(_longest_row(X), _longest_row(U))
        # maximum number of entries of a pair: the non-zeros of both rows, once per view that has the feature
        capacity = 2 * widest * (int(np.diff(feature).max()) if feature.shape[0] > 1 else 1)
        _descend_csr(
            X.data,
            X.indices,
            X.indptr,
            U.data,
            U.indices,
            U.indptr,
            feature,
            position,
            view_of,
            capacity,
            *common,
        )
    else:
        # a single view with all columns in order is read without copying columns
        whole = views.columns.shape[0] == X.shape[1] and bool(
            (views.columns == np.arange(X.shape[1], dtype=np.int64)).all()
        )
        _descend_dense(np.asarray(X), np.asarray(U), views.columns, whole, *common)
    return Descent(direction, correction, scale, total, state.t + int(n_steps), state.seed)


def descend_until(
    advance: Callable[[Descent, int], Descent],
    value: Callable[[Descent], float],
    state: Descent,
    n_steps: int,
    *,
    every: int,
    patience: int,
) -> tuple[Descent, list[tuple[int, float]]]:
    """Advance until the value has not improved for ``patience`` evaluations, or for at most ``n_steps`` steps.

    Return the best state, and a history of (number of steps, value) with one entry per evaluation.
    """
    best, best_value, since = state, -np.inf, 0
    history = []
    done = 0
    while done < n_steps and since < patience:
        step = min(every, n_steps - done)
        state = advance(state, step)
        done += step
        now = value(state)
        history.append((state.t, now))
        since += 1
        if now > best_value:
            best, best_value, since = state, now, 0
    return best, history


def _longest_row(X: Any) -> int:
    return int(np.diff(X.indptr).max()) if X.shape[0] else 0


def _positions_of_features(views: Views, n_features: int) -> tuple[Int, Int, Int]:
    """Return the positions of the weights of each feature (one per view that includes it), and the view of each
    position."""
    order = np.argsort(views.columns, kind="stable").astype(np.int64)
    count = np.bincount(views.columns, minlength=n_features)
    return offsets_of(count), order, row_groups(views.starts)


# ---- kernels
#
# Inside the loops over steps, no array is sliced and no tuple of arrays is unpacked: Numba counts references to the
# results with two locked instructions each, which cost more than the arithmetic of a step and delay memory reads. Numba
# omits most of these counts in functions with a single exit, such as these kernels, in which no division raises.
# Indices of vectors are unsigned, because a loop is not vectorised if an index might be negative.
#
# The two kernels make the same steps (the tests compare both with the same slow implementation). For dense rows, a pair
# is a vector with one difference per feature; for CSR rows, it is a list of non-zeros, each with the position of its
# weight. A step
#
# 1. computes for each pair c and view v the margin w^v . p^v and, if step sizes depend on it, ||p^v||^2;
# 2. computes coefficients from them (``_weigh``), all with the weights before the step;
# 3. shrinks the weights by 1 - eta lam, which only changes ``scale``, and adds the pairs to ``direction``;
# 4. adds now * weights to the weighted sum over time. This sum is total * direction - correction: when ``direction``
# changes, ``correction`` changes by ``total`` times that change, so that the sum of earlier steps remains the same.

_BLOCK = 32
"""Number of pairs that are sampled and prefetched ahead of their steps: enough to hide memory latency, and few enough
for the L2 cache."""

_LEAST_SCALE = 1e-9
"""Smallest scale of a direction; a smaller scale is multiplied into the direction, long before it would underflow. The
scale is multiplied by a factor in each step and tends to zero for a large ``lam``."""


def _emit_prefetch(typingctx, address):  # type: ignore[no-untyped-def]
    """Request the cache line at an address without waiting for it."""

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, word, word, word])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
        builder.call(function, [pointer, word(0), word(2), word(1)])
        return context.get_dummy_value()

    return types.void(types.uintp), codegen


_prefetch: Any = intrinsic(_emit_prefetch)


@kernel(inline="always")
def _subtract(X, a, b, out, c):  # type: ignore[no-untyped-def]
    for j in range(np.uint64(X.shape[1])):
        out[c, j] = np.float64(X[a, j]) - np.float64(X[b, j])


@kernel(inline="always")
def _add(step, p, c, first, last, out):  # type: ignore[no-untyped-def]
    for j in range(first, last):
        out[j] += step * p[c, j]


@kernel(inline="always")
def _weigh(margin, norm, target, k, l, eta_0, lam, mu, squared, t, eta, coef):  # type: ignore[no-untyped-def]  # noqa: E741
    """Compute the step sizes, and per pair and view the negative derivative of the pair's term with respect to
    ``w.p``."""
    # pairs 0 to k - 1 of the batch are labelled, the next l are not
    m = eta_0.shape[0]
    curvature = 0.0
    for i in range(k, k + l):
        largest = 0.0
        for v in range(m):
            largest = max(largest, norm[i, v])
        curvature += largest
    curvature *= 4.0 * mu * m
    for v in range(m):
        bound = curvature
        if squared:
            for i in range(k):
                bound += norm[i, v]
        eta[v] = eta_0[v] / (1.0 + eta_0[v] * lam * t)
        if eta[v] * bound > 1.0:
            eta[v] = 1.0 / bound
        for i in range(k):
            if squared:
                coef[i, v] = target[i] - margin[i, v]
            else:
                coef[i, v] = target[i] if target[i] * margin[i, v] < 1.0 else 0.0
    for i in range(k, k + l):
        together = 0.0
        for v in range(m):
            together += margin[i, v]
        for v in range(m):
            coef[i, v] = -4.0 * mu * (m * margin[i, v] - together)


@kernel(inline="always")
def _divide_out(v, first, last, direction, scale, total):  # type: ignore[no-untyped-def]
    """Multiply the direction of a view by its scale and set the scale to 1; weights and weighted sum remain the
    same."""
    for j in range(first, last):
        direction[j] *= scale[v]
    total[v] /= scale[v]
    scale[v] = 1.0


@kernel
def _descend_dense(  # type: ignore[no-untyped-def]
    X,
    U,
    columns,
    whole,
    y,
    labeled,
    unlabeled,
    labeled_key,
    unlabeled_key,
    starts,
    eta_0,
    lam,
    squared,
    k,
    mu,
    l,  # noqa: E741
    t,
    n_steps,
    direction,
    correction,
    scale,
    total,
):
    m, width, n_features = eta_0.shape[0], columns.shape[0], X.shape[1]
    batch = k + l
    block = max(1, _BLOCK // batch)
    better, worse = np.empty(block * batch, np.int64), np.empty(block * batch, np.int64)
    difference = np.empty((batch, n_features))
    p = difference if whole else np.empty((batch, width))
    flat, width = p.reshape(-1), p.shape[1]
    margin, norm, coef = np.zeros((batch, m)), np.zeros((batch, m)), np.zeros((batch, m))
    target, eta = np.zeros(batch), np.zeros(m)
    position = starts.astype(np.uint64)
    X_at, U_at = X.ctypes.data, U.ctypes.data
    X_row, U_row = n_features * X.itemsize, n_features * U.itemsize
    with_norms = squared or l > 0
    for first in range(t, t + n_steps, block):
        n = min(block, t + n_steps - first)
        draw_into(labeled, labeled_key, first * k, n, k, better, worse, np.int64(0), batch)
        draw_into(unlabeled, unlabeled_key, first * l, n, l, better, worse, k, batch)
        for i in range(n):
            for c in range(batch):
                base, row = (X_at, X_row) if c < k else (U_at, U_row)
                for byte in range(0, row, 64):
                    _prefetch(types.uintp(base + better[i * batch + c] * row + byte))
                    _prefetch(types.uintp(base + worse[i * batch + c] * row + byte))
        for i in range(n):
            now = first + i + 1
            # 1. margins of all pairs, from the weights before the step
            for c in range(batch):
                a, b = np.uint64(better[i * batch + c]), np.uint64(worse[i * batch + c])
                at = np.uint64(c)
                if c < k:
                    _subtract(X, a, b, difference, at)
                    target[c] = y[a] - y[b]
                else:
                    _subtract(U, a, b, difference, at)
                if not whole:
                    for j in range(width):
                        p[c, j] = difference[c, columns[j]]
                for v in range(m):
                    own, length = starts[v], starts[v + 1] - starts[v]
                    there = c * width + own
                    margin[c, v] = scale[v] * dot_at(direction, own, flat, there, length)
                    if with_norms:
                        norm[c, v] = dot_at(flat, there, flat, there, length)
            # 2. coefficients; 3. shrink the weights and add the pairs; 4. update the sum over time
            _weigh(margin, norm, target, k, l, eta_0, lam, mu, squared, now, eta, coef)
            for v in range(m):
                scale[v] *= 1.0 - eta[v] * lam
                if scale[v] < _LEAST_SCALE:
                    _divide_out(v, starts[v], starts[v + 1], direction, scale, total)
                for c in range(batch):
                    if coef[c, v] != 0.0:
                        step = eta[v] * coef[c, v] / scale[v]
                        at = np.uint64(c)
                        _add(step, p, at, position[v], position[v + 1], direction)
                        _add(step * total[v], p, at, position[v], position[v + 1], correction)
                total[v] += now * scale[v]


@kernel
def _difference(data, indices, indptr, a, b, feature, position, weight_at, value, c):  # type: ignore[no-untyped-def]
    """Write row ``a`` minus row ``b`` as the entries of pair ``c``, in ascending order of feature; return their
    number."""
    # merge two sorted lists of features; each non-zero gives one entry per view that includes the feature
    n, i, j = 0, indptr[a], indptr[b]
    while i < indptr[a + 1] or j < indptr[b + 1]:
        if j >= indptr[b + 1] or (i < indptr[a + 1] and indices[i] < indices[j]):
            f, x = indices[i], np.float64(data[i])
            i += 1
        elif i >= indptr[a + 1] or indices[j] < indices[i]:
            f, x = indices[j], -np.float64(data[j])
            j += 1
        else:
            f, x = indices[i], np.float64(data[i]) - np.float64(data[j])
            i += 1
            j += 1
        for at in range(feature[f], feature[f + 1]):
            weight_at[c, n], value[c, n] = position[at], x
            n += 1
    return n


@kernel
def _prefetch_row(indptr, row, data_at, data_size, indices_at, indices_size):  # type: ignore[no-untyped-def]
    # request every cache line (64 bytes) of the row's values and indices
    for at in range(indptr[row] * data_size, indptr[row + 1] * data_size, 64):
        _prefetch(types.uintp(data_at + at))
    for at in range(indptr[row] * indices_size, indptr[row + 1] * indices_size, 64):
        _prefetch(types.uintp(indices_at + at))


@kernel
def _descend_csr(  # type: ignore[no-untyped-def]
    data,
    indices,
    indptr,
    U_data,
    U_indices,
    U_indptr,
    feature,
    position,
    view_of,
    capacity,
    y,
    labeled,
    unlabeled,
    labeled_key,
    unlabeled_key,
    starts,
    eta_0,
    lam,
    squared,
    k,
    mu,
    l,  # noqa: E741
    t,
    n_steps,
    direction,
    correction,
    scale,
    total,
):
    m = eta_0.shape[0]
    batch = k + l
    block = max(1, _BLOCK // batch)
    better, worse = np.empty(block * batch, np.int64), np.empty(block * batch, np.int64)
    weight_at, value = np.empty((batch, capacity), np.int64), np.empty((batch, capacity))
    length = np.zeros(batch, np.int64)
    margin, norm, coef = np.zeros((batch, m)), np.zeros((batch, m)), np.zeros((batch, m))
    target, eta, weight = np.zeros(batch), np.zeros(m), np.zeros(m)
    data_at, indices_at, U_data_at, U_indices_at = (
        data.ctypes.data,
        indices.ctypes.data,
        U_data.ctypes.data,
        U_indices.ctypes.data,
    )
    for first in range(t, t + n_steps, block):
        n = min(block, t + n_steps - first)
        draw_into(labeled, labeled_key, first * k, n, k, better, worse, np.int64(0), batch)
        draw_into(unlabeled, unlabeled_key, first * l, n, l, better, worse, k, batch)
        for i in range(n * batch):
            for row in (better[i], worse[i]):
                if i % batch < k:
                    _prefetch_row(indptr, row, data_at, data.itemsize, indices_at, indices.itemsize)
                else:
                    _prefetch_row(U_indptr, row, U_data_at, U_data.itemsize, U_indices_at, U_indices.itemsize)
        for i in range(n):
            now = first + i + 1
            # 1. margins of all pairs, from the weights before the step
            for c in range(batch):
                a, b = better[i * batch + c], worse[i * batch + c]
                if c < k:
                    length[c] = _difference(
                        data, indices, indptr, a, b, feature, position, weight_at, value, c
                    )
                    target[c] = y[a] - y[b]
                else:
                    length[c] = _difference(
                        U_data, U_indices, U_indptr, a, b, feature, position, weight_at, value, c
                    )
                for v in range(m):
                    margin[c, v] = norm[c, v] = 0.0
                for j in range(length[c]):
                    v, x = view_of[weight_at[c, j]], value[c, j]
                    margin[c, v] += direction[weight_at[c, j]] * x
                    norm[c, v] += x * x
                for v in range(m):
                    margin[c, v] *= scale[v]
            _weigh(margin, norm, target, k, l, eta_0, lam, mu, squared, now, eta, coef)
            for v in range(m):
                scale[v] *= 1.0 - eta[v] * lam
                if scale[v] < _LEAST_SCALE:
                    _divide_out(v, starts[v], starts[v + 1], direction, scale, total)
            # compute the coefficients of ``direction`` and ``correction`` once per pair and view, not per non-zero
            for c in range(batch):
                for v in range(m):
                    coef[c, v] *= eta[v] / scale[v]
                    weight[v] = coef[c, v] * total[v]
                for j in range(length[c]):
                    at = weight_at[c, j]
                    v = view_of[at]
                    direction[at] += coef[c, v] * value[c, j]
                    correction[at] += weight[v] * value[c, j]
            for v in range(m):
                total[v] += now * scale[v]
