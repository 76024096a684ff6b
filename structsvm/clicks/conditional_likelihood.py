"""The conditional log-likelihood of clicks given the number of clicks of each document, with clustered errors."""

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.common.kernel import kernel
from structsvm.common.portable.arrays import combine, dot, inverse, matmul, products, solve
from structsvm.common.portable.compiled import exp as kernel_exp, log as kernel_log
from structsvm.common.portable.elementary import exp
from structsvm.protocols import Float, Int
from structsvm.queries import group_ids

_BOX = 30.0
"""Bound on the magnitude of log propensities: the optimum is certified within it; estimates beyond it are refused."""
_MAX_STEPS = 50


class Likelihood:
    """The conditional log-likelihood of cells sorted by row, with log propensities ``basis @ phi``."""

    def __init__(
        self, query: Int, row: Int, position: Int, shows: Int, clicks: Int, size: int, basis: Float
    ) -> None:
        offsets = group_ids(row).offsets
        self._cells = offsets, position, shows.astype(np.float64), clicks.astype(np.float64)
        self._query = query[offsets[:-1]]
        self._n_queries, self._size, self.basis = int(query[-1]) + 1, size, basis

    def value(self, phi: Float) -> float:
        return float(_conditional_value(*self._cells, products(self.basis, phi)))

    def derivatives(self, phi: Float) -> tuple[Float, Float]:
        """Return the gradient and the negative Hessian."""
        gradient, curvature = _conditional_derivatives(*self._cells, products(self.basis, phi))
        return combine(gradient, self.basis), matmul(matmul(self.basis.T, curvature), self.basis)

    def scores(self, phi: Float) -> Float:
        """Return the gradient of each query, shape (n_queries, n_parameters)."""
        offsets, position, shows, clicks = self._cells
        row = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
        share = shows * exp(products(self.basis, phi))[position]
        share /= np.bincount(row, share)[row]
        beyond = clicks - np.bincount(row, clicks)[row] * share
        key = self._query[row] * self._size + position
        scores = np.bincount(key, beyond, self._n_queries * self._size).reshape(self._n_queries, self._size)
        return matmul(scores, self.basis)

    def maximise(self, tol: float) -> tuple[Float, int, float]:
        """Return the maximiser, the number of Newton steps, and a bound on the remaining gain.

        A step is halved until the likelihood does not fall.
        """
        phi = np.zeros(self.basis.shape[1])
        if phi.size == 0:  # only the first position, whose propensity is 1
            return phi, 0, 0.0
        value = self.value(phi)
        best = np.inf, phi
        for step in range(_MAX_STEPS):
            gradient, curvature = self.derivatives(phi)
            try:
                direction = solve(curvature, gradient)
            except np.linalg.LinAlgError:
                break
            # bound on the gain of a concave function within the box
            gap = dot(np.abs(gradient), _BOX + np.abs(phi))
            # on a large log the last steps gain less than the rounding error of the likelihood, by which a line search
            # would reject them; the gap decides instead whether they help
            level_off = dot(gradient, direction) <= 1e-12 * abs(value)
            if gap <= tol or (level_off and gap > 0.5 * best[0]):
                return (phi, step, gap) if gap <= best[0] else (best[1], step, best[0])
            if level_off:
                best = gap, phi
            size = 1.0
            while not level_off and (new := self.value(phi + size * direction)) < value and size > 1e-10:
                size /= 2
            if size <= 1e-10:
                return phi, step, gap
            phi = phi + size * direction
            value = self.value(phi) if level_off else new
            if np.abs(phi).max() > _BOX:
                break
        raise BadInput(
            "cells",
            "expected clicks that determine all propensities, got some without a finite estimate",
            "estimate fewer positions with {last}",
        )

    def errors(self, phi: Float) -> tuple[Float, int, Float | None, float]:
        """Return the covariance of the logarithms of all propensities, clustered by query, and its sample sizes.

        The sample sizes are the number of queries, the degrees of freedom of each logarithm, and the effective number
        of queries.
        """
        offsets, position, shows, clicks = self._cells
        informative = (np.diff(offsets) > 1) & (np.add.reduceat(clicks, offsets[:-1]) > 0)
        n = int(np.unique(self._query[informative]).shape[0])
        if phi.size == 0:
            return np.zeros((self._size, self._size)), n, None, float(n)
        _, curvature = self.derivatives(phi)
        if n < 2:  # the score of a single query is 0 at the estimate: its clicks are taken as independent
            return matmul(matmul(self.basis, inverse(curvature)), self.basis.T), n, None, float(n)
        # in whitened coordinates, the information of all queries together is the identity
        whitened = matmul(self.basis, _whitener(curvature))
        queries = group_ids(self._query).offsets
        size, m = whitened.shape
        matrices, cross, freedom = np.zeros((6, m, m)), np.zeros((size, m, m)), np.ones(size)
        traces = _cluster_errors(
            offsets,
            position,
            shows,
            clicks,
            exp(products(self.basis, phi)),
            queries,
            whitened,
            matrices,
            np.zeros((6, m)),
            cross,
            np.zeros((2, size)),
            freedom,
        )
        covariance = matmul(matmul(whitened, matrices[0]), whitened.T)
        return covariance, n, np.maximum(freedom, 1.0), float(traces[0] ** 2 / traces[1])


@kernel
def _conditional_value(offsets, position, shows, clicks, beta):  # type: ignore[no-untyped-def]
    """Return the log-likelihood of the positions of each row's clicks, given their number (see :func:`harvest`)."""
    total = 0.0
    for r in range(offsets.shape[0] - 1):
        weight, count = 0.0, 0.0
        for i in range(offsets[r], offsets[r + 1]):
            weight += shows[i] * kernel_exp(beta[position[i]])
            count += clicks[i]
            if clicks[i] > 0:
                total += clicks[i] * (kernel_log(shows[i]) + beta[position[i]])
        if count > 0:
            total -= count * kernel_log(weight)
    return total


@kernel
def _conditional_derivatives(offsets, position, shows, clicks, beta):  # type: ignore[no-untyped-def]
    """Return the gradient with respect to ``beta``, and the negative Hessian."""
    # Each row contributes the derivatives of a multinomial with shares p: clicks - count p, and count (diag(p) - p p').
    n = beta.shape[0]
    gradient, curvature = np.zeros(n), np.zeros((n, n))
    share = np.empty(n)
    for r in range(offsets.shape[0] - 1):
        first, end = offsets[r], offsets[r + 1]
        weight, count = 0.0, 0.0
        for i in range(first, end):
            share[i - first] = shows[i] * kernel_exp(beta[position[i]])
            weight += share[i - first]
            count += clicks[i]
        if count == 0 or end - first < 2:
            continue
        for i in range(first, end):
            p = share[i - first] / weight
            k = position[i]
            gradient[k] += clicks[i] - count * p
            curvature[k, k] += count * p
            for j in range(first, end):
                curvature[k, position[j]] -= count * p * share[j - first] / weight
    return gradient, curvature


_SMALL = 1e-3
"""Largest share of a query in the information for which its correction uses only the first two terms of a series (an
error of second order)."""


def _whitener(a: Float) -> Float:
    """Return ``U`` with ``U U' = a^-1`` of a positive definite matrix: the inverse of Cholesky's factor, transposed."""
    rest, out = a.copy(), np.eye(a.shape[0])
    for k in range(a.shape[0]):
        pivot = np.sqrt(rest[k, k])
        column = rest[k + 1 :, k, None] / pivot
        rest[k + 1 :, k + 1 :] -= column * column.T
        out[k] /= pivot
        out[k + 1 :] -= column * out[k]
    return out.T


@kernel
def _times(matrix, vector, out):  # type: ignore[no-untyped-def]
    for a in range(out.shape[0]):
        out[a] = 0.0
        for b in range(vector.shape[0]):
            out[a] += matrix[a, b] * vector[b]


@kernel
def _cluster_errors(  # type: ignore[no-untyped-def]
    offsets, position, shows, clicks, theta, queries, whitened, matrices, vectors, cross, sums, freedom
):
    """Fill the first matrix with the CR2 meat in whitened coordinates, and compute degrees of freedom by position.
    Return the sum over queries of the traces of their information, and the sum of the squared traces.
    """
    # A query has the whitened score `z` and information `W`; all `W` sum to the identity. The score at the estimate
    # has the variance `W - W^2`, so `(I - W)^(-1/2) z` has the variance of the score at the true parameters. The
    # variance of a position's logarithm is then a quadratic form of independent scores, whose mean and variance under
    # the model give its degrees of freedom: `2 mean^2 / variance`. If one query alone determines a direction, its score
    # is 0 in it, and the variance is that of independent clicks, without degrees of freedom. Matrices are passed in
    # and processed element by element: whole-array code would take six seconds to compile
    size, m = whitened.shape
    meat, W, root, alone, A, V = matrices[0], matrices[1], matrices[2], matrices[3], matrices[4], matrices[5]
    z, centre, row, u, b_, m_ = vectors[0], vectors[1], vectors[2], vectors[3], vectors[4], vectors[5]
    mean, squares = sums[0], sums[1]
    traces, squared_traces = 0.0, 0.0
    for q in range(queries.shape[0] - 1):
        first, last = queries[q], queries[q + 1]
        W[:], z[:] = 0.0, 0.0
        for r in range(first, last):
            begin, end = offsets[r], offsets[r + 1]
            weight, count = 0.0, 0.0
            for i in range(begin, end):
                weight += shows[i] * theta[position[i]]
                count += clicks[i]
            if count == 0 or end - begin < 2:
                continue
            centre[:] = 0.0
            for i in range(begin, end):
                p = shows[i] * theta[position[i]] / weight
                for a in range(m):
                    centre[a] += p * whitened[position[i], a]
            for i in range(begin, end):
                p = shows[i] * theta[position[i]] / weight
                for a in range(m):
                    row[a] = whitened[position[i], a] - centre[a]
                    z[a] += clicks[i] * row[a]
                for a in range(m):
                    for b in range(m):
                        W[a, b] += count * p * row[a] * row[b]
        trace = 0.0
        for a in range(m):
            trace += W[a, a]
        if trace <= 0:
            continue
        traces += trace
        squared_traces += trace * trace
        alone[:] = 0.0
        if trace >= _SMALL:
            _invert_root(W, root, alone, A, V)
        else:
            for a in range(m):
                for b in range(m):
                    root[a, b] = (1.0 if a == b else 0.0) + 0.5 * W[a, b]
        _times(root, z, u)
        for a in range(m):
            for b in range(m):
                meat[a, b] += u[a] * u[b] + alone[a, b]
        for k in range(1, size):
            d, length = 0.0, 0.0
            _times(root, whitened[k], b_)
            _times(W, b_, m_)
            for a in range(m):
                d += m_[a] * b_[a]
                length += m_[a] * m_[a]
            for a in range(m):
                for b in range(m):
                    mean[k] += whitened[k, a] * alone[a, b] * whitened[k, b]
            mean[k] += d - length
            squares[k] += d * d - 2 * d * length
            for a in range(m):
                for b in range(m):
                    cross[k, a, b] += m_[a] * m_[b]
    for k in range(1, size):
        total = squares[k]
        for a in range(m):
            for b in range(m):
                total += cross[k, a, b] * cross[k, a, b]
        if total > 0:
            freedom[k] = mean[k] * mean[k] / total
    return traces, squared_traces


@kernel(inline="always")
def _invert_root(W, out, alone, A, V):  # type: ignore[no-untyped-def]
    """Fill ``out`` with ``(I - W)^(-1/2)`` for a symmetric matrix W between 0 and I. In directions in which W is the
    identity, ``out`` is 0, and their projection is added to ``alone``. Uses Jacobi rotations, which need no library.
    """
    m = W.shape[0]
    out[:] = 0.0
    for a in range(m):
        for b in range(m):
            V[a, b] = 1.0 if a == b else 0.0
            A[a, b] = V[a, b] - W[a, b]
    for _ in range(60):
        off = 0.0
        for a in range(m):
            for b in range(a):
                off += A[a, b] * A[a, b]
        if off < 1e-30:
            break
        for p in range(m - 1):
            for q in range(p + 1, m):
                if A[p, q] == 0.0:
                    continue
                # rotate columns, then rows p and q so that A[p, q] becomes zero; V collects the eigenvectors
                tau = (A[q, q] - A[p, p]) / (2.0 * A[p, q])
                sign = 1.0 if tau >= 0 else -1.0
                t = sign / (abs(tau) + np.sqrt(1.0 + tau * tau))
                c = 1.0 / np.sqrt(1.0 + t * t)
                s = t * c
                for a in range(m):
                    A[a, p], A[a, q] = c * A[a, p] - s * A[a, q], s * A[a, p] + c * A[a, q]
                    V[a, p], V[a, q] = c * V[a, p] - s * V[a, q], s * V[a, p] + c * V[a, q]
                for a in range(m):
                    A[p, a], A[q, a] = c * A[p, a] - s * A[q, a], s * A[p, a] + c * A[q, a]
    # A is diagonal: eigenvalue zero of I - W means that one query alone determines the direction
    for k in range(m):
        if A[k, k] <= 1e-9:
            for a in range(m):
                for b in range(m):
                    alone[a, b] += V[a, k] * V[b, k]
        else:
            scale = 1.0 / np.sqrt(A[k, k])
            for a in range(m):
                for b in range(m):
                    out[a, b] += scale * V[a, k] * V[b, k]
