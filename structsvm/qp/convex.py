"""The master problem of cutting planes with a convex penalty and convex constraints, which are written in cvxpy.

cvxpy compiles the penalty and the constraints once, to a problem over cones,

    min_x 1/2 x' P x + q . x + offset     subject to     A x + s = b,  s in K,

in which ``x`` consists of the weights and auxiliary variables of cvxpy. Cuts of the mean hinge are appended as rows
over the weights and one slack variable, and Clarabel is called directly to solve the result, without cvxpy.

Clarabel stops at a tolerance, so that its objective is not a lower bound. Its multipliers ``z`` give a bound: for every
``z`` in the dual cone and every feasible ``x``

    1/2 x' P x + q . x  >=  1/2 x' P x + (q + A' z) . x - b . z,

and the right-hand side has a closed-form minimum over the entries of ``x`` for which ``P`` is diagonal and positive.
For the other entries the residual ``P y + q + A' z``, with ``y`` from Clarabel, should be zero, but is of the order of
the tolerance. A least-squares correction of ``z`` removes it. The corrected ``z`` may be slightly outside the dual
cone; a step of the same size towards an interior point, which is computed once, moves it back inside. The remaining
residual is rounding error. It is multiplied by an assumed bound on ``x`` (``_FAR``) and subtracted from the lower
bound.
"""

import contextlib
import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse.linalg import splu

from structsvm.common.checks import BadInput
from structsvm.protocols import Float
from structsvm.qp.cvxpy import require
from structsvm.queries import refuse_number

_ACCURACY = 1e-12
"""Tolerance of Clarabel, relative and absolute."""

_PROOF = 1e-11
"""Tolerance of certificates of infeasibility; with its default, Clarabel reports problems with bounds above 1e8 as
infeasible."""

_FAR = 1e4
"""Assumed bound on the entries of a solution, relative to the largest entry so far; it is used in the lower bound."""

_NEAR = (1e-4, 1e-8, 1e-12)
"""Weights of 1/2 ||w||^2 relative to the depth of an interior point, in the order in which they are tried."""

_VIOLATED = 1e-6
"""Largest accepted violation of the constraints, relative to the larger of their right-hand sides and the weights."""


class Master(NamedTuple):
    """Solution of the master problem: minimise the penalty plus ``C`` times the maximum of the cuts."""

    w: Float
    alpha: Float
    """Multiplier of each cut."""
    lower: float
    """Lower bound on the minimum."""


class Convex:
    """Penalty and constraints on the weights, compiled once for any cuts and any ``C``.

    Both are given as functions of the cvxpy variable ``w``; ``w["title"]`` is the weight of the feature ``title`` in
    ``names``.
    """

    # A penalty of the user, such as L1, may have zero weights at its optimum (``may_be_sparse``). The sign constraints
    # ``signs`` hold exactly; ``signs_by`` is the name of their argument in error messages. ``column_numbers`` are
    # column labels that are numbers but not positions; w[3] is then ambiguous and raises an error.

    def __init__(
        self,
        n_features: int,
        constraints: Callable[[Any], Any] | None = None,
        penalty: Callable[[Any], Any] | None = None,
        signs: Float | None = None,
        names: Sequence[str] | None = None,
        column_numbers: tuple[int, ...] | None = None,
        signs_by: str = "monotone_constraints",
    ) -> None:
        cp = require()
        self._names = None if names is None else [str(name) for name in names]
        self._w = _variable(cp, n_features, self._names, column_numbers)
        self._signs, self._signs_by = signs, signs_by
        self._largest = 0.0
        self.may_be_sparse = penalty is not None
        listed = [] if constraints is None else _listed(cp, constraints, self._w)
        self._penalty = (
            0.5 * cp.sum_squares(self._w) if penalty is None else _expression(cp, penalty, self._w)
        )
        for one in listed:
            self._check_parts("constraints", one)
        self._check_parts("penalty", self._penalty)
        self.constraints = tuple(self._text(one) for one in listed)
        self.penalty = self._text(self._penalty)
        self._listed = listed
        everything = [*listed, *_signed(self._w, signs)]
        if self._w not in cp.Problem(cp.Minimize(self._penalty), everything).variables():
            # otherwise the compiled problem would have no columns for w
            everything.append(cp.Variable(n_features) == self._w)
        self._columns(cp, everything)
        self._check(cp)
        self._find_inner()

    def value(self, w: Float) -> float:
        """Return the penalty at ``w``, or infinity where it is undefined."""
        self._w.value = w
        value = self._penalty.value
        return float(value) if value is not None and np.isfinite(value) else np.inf

    def slope(self, w: Float, step: Float) -> float:
        """Return the approximate derivative of the penalty at ``w`` along ``step``, by a finite difference."""
        share = 1e-6
        return (self.value(w + share * step) - self.value(w)) / share

    def violation(self, w: Float) -> float:
        """Return the largest violation of a constraint at ``w``, in the units of the constraint."""
        self._w.value = w
        worst = max((float(np.max(one.violation())) for one in self._listed), default=0.0)
        if self._signs is not None:
            worst = max(worst, float((-self._signs * w).max(initial=0.0)))
        return worst

    def solve(self, joint: Float, loss: Float, C: float) -> Master:
        """Minimise ``penalty + C max(0, max_k loss_k - joint_k . w)`` under the constraints."""
        # the variables are x and the slack xi; the added rows are -joint_k . w - xi <= -loss_k for each cut, and -xi <=
        # 0
        n, size = joint.shape[0], self._q.shape[0]
        rows = np.zeros((n + 1, size + 1))
        rows[:n, self._own] = -joint
        rows[:, size] = -1.0
        A: Any = _stacked([sparse.hstack([self._A, sparse.csc_array((self._A.shape[0], 1))]), rows]).tocsc()
        P = sparse.block_diag([self._P, sparse.csc_array((1, 1))]).tocsc()
        q = np.append(self._q, C)
        b = np.concatenate([self._b, -loss, [0.0]])
        import clarabel

        solution = self._run(P, q, A, b, [clarabel.NonnegativeConeT(n + 1)])
        x, z = np.array(solution.x), np.array(solution.z)
        if not (np.isfinite(x).all() and np.isfinite(z).all()):
            raise RuntimeError(f"qp: Clarabel found no solution (status {solution.status})")
        m = self._A.shape[0]
        cuts = np.maximum(z[m : m + n], 0.0)
        cuts *= min(1.0, C / max(cuts.sum(), 1e-300))
        lower = self._lower(x[:size], z[:m], cuts, joint, loss)
        return Master(self._repaired(x[self._own]), cuts, lower)

    def _lower(self, x: Float, z: Float, cuts: Float, joint: Float, loss: Float) -> float:
        """Return the lower bound described in the module docstring, for feasible multipliers of the cuts."""
        # ``_flat`` marks the entries of x without a closed-form minimum; they keep the values that Clarabel returned
        self._largest = max(self._largest, float(np.abs(x).max(initial=0.0)))
        linear = self._q.copy()
        linear[self._own] -= joint.T @ cuts
        flat = np.where(self._flat, x, 0.0)
        z = self._stationary(z, linear + self._P @ flat)
        outside = self._outside(z)
        if outside > 0 and self._depth > 0:
            # z is stationary, but slightly outside the dual cone: take a convex combination with the stationary point
            # inside the cone, which has no mass on cuts. Convex combinations of stationary points are stationary.
            share = outside / (outside + self._depth)
            z = (1 - share) * z + share * self._inner
            cuts = (1 - share) * cuts
            linear = (1 - share) * linear + share * self._q
            flat = (1 - share) * flat + share * self._inner_x
        z = self._in_dual_cone(z)
        v = linear + self._A.T @ z
        d = ~self._flat
        # add -b . z and the minimum over the eliminated entries, -v^2 / 2 P; then subtract the residual and rounding
        value = float(loss @ cuts - self._b @ z)
        value -= 0.5 * float((v[d] ** 2 / self._curvature[d]).sum()) + 0.5 * float(flat @ (self._P @ flat))
        left = float(np.abs((v + self._P @ flat)[self._flat]).sum())
        rounding = 1e-15 * (float(np.abs(loss) @ cuts) + float(np.abs(self._b) @ np.abs(z)))
        return float(value - _FAR * self._largest * left - rounding + self._offset)

    def _stationary(self, z: Float, linear: Float) -> Float:
        """Return ``z`` with the smallest change that makes ``linear + A' z`` zero in the flat columns."""
        # normal equations, with a factor that is computed once; two refinement steps reduce the rounding error
        if not self._flat.any():
            return z
        for _ in range(3):
            rest = (linear + self._A.T @ z)[self._flat]
            if not np.abs(rest).max(initial=0.0) > 0:
                break
            z = z - self._movable @ self._factor.solve(rest)
        return z

    def _outside(self, z: Float) -> float:
        """Return the largest distance of multipliers of inequalities and second-order cones from the dual cone."""
        return float((self._in_dual_cone(z) - z).max(initial=0.0))

    def _in_dual_cone(self, z: Float) -> Float:
        """Return ``z`` with the multipliers of inequalities and second-order cones moved into the dual cone."""
        # in Clarabel's result, multipliers of other cones are strictly inside these cones, and ``_stationary`` does not
        # change them
        z = z.copy()
        first = self._n_zero
        z[first : first + self._n_nonneg] = np.maximum(z[first : first + self._n_nonneg], 0.0)
        first += self._n_nonneg
        for length in self._soc:
            z[first] = max(z[first], float(np.linalg.norm(z[first + 1 : first + length])) * (1 + 1e-15))
            first += length
        return z

    def _find_inner(self) -> None:
        """Find a stationary dual point without cuts in the interior of the dual cone; its depth is 0 if there is
        none."""
        if not self._flat.any():
            self._depth = 0.0
            return
        polyhedral = self._n_zero + self._n_nonneg + sum(self._soc)
        m, size = self._A.shape
        movable = self._A[:, self._flat].tolil()
        movable[polyhedral:] = 0.0
        self._movable = sparse.csc_array(movable)
        normal = (self._movable.T @ self._movable).tocsc()
        largest = float(normal.diagonal().max(initial=0.0))
        self._factor = splu(
            sparse.csc_matrix(normal + 1e-13 * (largest or 1.0) * sparse.eye_array(normal.shape[0]))
        )
        self._depth, self._inner, self._inner_x = 0.0, np.zeros(m), np.zeros(size)
        if polyhedral < m:
            return
        # Maximise the depth t subject to z - t e in the dual cone, t <= 1, and q + A' z + P y = 0 in the flat columns.
        # e is 1 for inequalities and for the first entry of each second-order cone, which makes it an interior point of
        # depth 1.
        import clarabel

        unit = np.zeros((m, 1))
        unit[self._n_zero : self._n_zero + self._n_nonneg] = 1.0
        unit[np.cumsum([self._n_zero + self._n_nonneg, *self._soc])[:-1].astype(int)] = 1.0
        equal = sparse.hstack(
            [self._A[:, self._flat].T, self._P[self._flat], sparse.csc_array((int(self._flat.sum()), 1))]
        )
        blocks: list[Any] = [-sparse.eye_array(m), sparse.csc_array((m, size)), sparse.csc_array(unit)]
        rows: Any = sparse.csr_array(sparse.hstack(blocks))
        last = sparse.csc_array(([1.0], ([0], [m + size])), shape=(1, m + size + 1))
        A: Any = _stacked([equal, rows[self._n_zero :], last]).tocsc()
        cones = [clarabel.ZeroConeT(equal.shape[0]), clarabel.NonnegativeConeT(self._n_nonneg)]
        cones += [clarabel.SecondOrderConeT(n) for n in self._soc] + [clarabel.NonnegativeConeT(1)]
        b = np.concatenate([-self._q[self._flat], np.zeros(m - self._n_zero), [1.0]])
        small = np.append(np.full(m + size, 1e-4), 0.0)
        solved = _clarabel(sparse.diags_array(small), -np.eye(1, m + size + 1, m + size)[0], A, b, cones)
        solution = np.array(solved.x)
        if not np.isfinite(solution).all():
            return
        y = np.where(self._flat, solution[m:-1], 0.0)
        z = self._stationary(solution[:m], self._q + self._P @ y)
        # the depth that remains after the correction of z, minus Clarabel's error
        depth = float(solution[-1]) - self._outside(z - solution[-1] * unit[:, 0])
        if depth > 1e-6:
            self._depth, self._inner, self._inner_x = depth, z, y

    def _repaired(self, w: Float) -> Float:
        """Return ``w`` moved so that it satisfies linear constraints up to rounding, and sign constraints exactly."""
        # Project on the equalities by least squares, then move towards the interior point until the most violated
        # inequality holds. The second round corrects the equalities after that move.
        for _ in range(2):
            if self._equal.shape[0]:
                w = w - np.linalg.lstsq(self._equal, self._equal @ w - self._equal_to, rcond=None)[0]
            excess = self._below @ w - self._most
            if self._room > 0 and excess.max(initial=-np.inf) > 0:
                margin = self._most - self._below @ self._centre
                share = float((excess / np.maximum(excess + margin, 1e-300))[excess > 0].max())
                w = w + min(1.0, share) * (self._centre - w)
        if self._signs is not None:
            w = np.where(w * self._signs < 0, 0.0, w)
        return w

    def _check_parts(self, argument: str, one: Any) -> None:
        """Raise BadInput for cvxpy parameters, for variables other than ``w``, and for numbers that are not finite."""
        if one.parameters():
            raise BadInput(argument, f"expected numbers instead of cvxpy parameters, got {self._text(one)}")
        if any(other.id != self._w.id for other in one.variables()):
            raise BadInput(
                argument,
                f"expected w as the only variable, got {self._text(one)}",
                "write it in functions of w",
            )
        if not all(np.isfinite(constant.value).all() for constant in one.constants()):
            raise BadInput(argument, f"expected finite numbers, got {self._text(one)}")

    def _columns(self, cp: ModuleType, constraints: list[Any]) -> None:
        """Compile the problem; find the columns of the weights and the rows of linear constraints."""
        # read the matrices and the columns of w from cvxpy's compilation for Clarabel
        problem = cp.Problem(cp.Minimize(self._penalty), constraints)
        try:
            data, _, _ = problem.get_problem_data(cp.CLARABEL)
        except cp.error.DCPError:
            raise _not_convex(cp, self._penalty, self._listed, self._text) from None
        except cp.error.SolverError as error:
            raise BadInput("constraints", f"Clarabel cannot solve the problem: {_line(error)}") from None
        compiled = data["param_prob"]
        first = compiled.var_id_to_col[self._w.id]
        self._own = slice(first, first + self._w.size)
        size = data["c"].shape[0]
        self._P = sparse.csc_array((size, size)) if data.get("P") is None else sparse.csc_array(data["P"])
        self._q, self._b = np.asarray(data["c"], dtype=float), np.asarray(data["b"], dtype=float)
        self._A = sparse.csc_array(data["A"])
        parts = compiled.apply_parameters(quad_obj=data.get("P") is not None)
        self._offset = float(np.asarray(parts[2 if data.get("P") is not None else 1]))
        dims = data["dims"]
        self._n_zero, self._n_nonneg, self._soc = int(dims.zero), int(dims.nonneg), [int(n) for n in dims.soc]
        self._dims = dims
        # The minimum over an entry of x has a closed form if the only entry of its column of P is a positive diagonal
        # entry; ``_flat`` marks the other entries of x.
        self._curvature = self._P.diagonal()
        self._P.eliminate_zeros()
        entries = np.diff(self._P.indptr)
        self._flat = ~((self._curvature > 0) & (entries == 1))
        # Rows that contain only the weights are linear constraints, which ``_repaired`` can satisfy exactly.
        rows: Any = sparse.csr_array(self._A)[: self._n_zero + self._n_nonneg]
        outside = np.ones(size, dtype=bool)
        outside[self._own] = False
        alone = np.asarray(abs(rows[:, outside]).sum(axis=1)).ravel() == 0
        equal = np.flatnonzero(alone[: self._n_zero])
        below = self._n_zero + np.flatnonzero(alone[self._n_zero :])
        self._equal, self._equal_to = rows[equal][:, self._own].toarray(), self._b[equal]
        self._below, self._most = rows[below][:, self._own].toarray(), self._b[below]
        self._linear = below

    def _check(self, cp: ModuleType) -> None:
        """Raise BadInput for constraints without a solution and penalties without a minimum; find an interior point."""
        solution = self._run(self._P, self._q, self._A, self._b, [])
        status = str(solution.status)
        if status == "PrimalInfeasible":
            parts = [(self._text(one), one) for one in self._listed]
            parts += [(self._signs_by, one) for one in _signed(self._w, self._signs)]
            raise _infeasible(cp, parts)
        if "DualInfeasible" in status:
            raise BadInput(
                "penalty",
                f"expected a penalty bounded below over the allowed weights, got {self.penalty}",
                "constrain w",
            )
        self._centre, self._room = self._inside()
        self.least = self._repaired(np.array(solution.x)[self._own])
        violated = self.violation(self.least)
        if not violated <= _VIOLATED * max(
            1.0, np.abs(self._b).max(initial=0.0), np.abs(self.least).max(initial=0.0)
        ):
            raise BadInput(
                "constraints",
                f"Clarabel found no weights that satisfy them (status {status}, violated by {violated:.1g})",
                "scale them to numbers of about unit size",
            )
        least = self.value(self.least)
        if least < -1e-7 * (1.0 + abs(self._offset)):
            raise BadInput(
                "penalty",
                f"expected values >= 0 over the allowed weights, got {self.penalty} with the minimum {least:.6g}",
                "add a constant",
            )

    def _inside(self) -> tuple[Float, float]:
        """Return weights that satisfy the linear inequalities with a margin of at most one, and the margin (0 if there
        are none)."""
        # A small quadratic term prefers weights near zero. If only large weights are interior, the term may outweigh
        # the margin; smaller coefficients are then tried.
        import clarabel

        size = self._q.shape[0]
        inside = sparse.csc_array(
            (np.linalg.norm(self._below, axis=1), (self._linear, np.zeros(len(self._linear), dtype=int))),
            shape=(self._A.shape[0], 1),
        )
        A: Any = _stacked([sparse.hstack([self._A, inside]), np.eye(1, size + 1, size)]).tocsc()
        q, b = -np.eye(1, size + 1, size)[0], np.append(self._b, 1.0)
        for weight in _NEAR:
            near = np.zeros(size + 1)
            near[self._own] = weight
            solution = self._run(sparse.diags_array(near).tocsc(), q, A, b, [clarabel.NonnegativeConeT(1)])
            x = np.array(solution.x)
            if np.isfinite(x).all() and x[size] > 0:
                return x[self._own], float(x[size])
        return np.zeros(self._w.size), 0.0

    def _run(self, P: object, q: Float, A: object, b: Float, more: list[Any]) -> Any:
        from cvxpy.reductions.solvers.conic_solvers import clarabel_conif

        cones: list[Any] = clarabel_conif.dims_to_solver_cones(self._dims)  # type: ignore[no-untyped-call]
        return _clarabel(P, q, A, b, [*cones, *more])

    def _text(self, expression: object) -> str:
        text = " ".join(str(expression).split())
        if self._names is None:
            return text
        names = self._names
        return re.sub(
            r"\bw\[(\d+(?:, \d+)*)\]",
            lambda at: f"w[{', '.join(repr(names[int(j)]) for j in at[1].split(', '))}]",
            text,
        )


def _stacked(blocks: list[Any]) -> Any:
    return sparse.vstack(blocks)


def _clarabel(P: Any, q: Float, A: Any, b: Float, cones: list[Any]) -> Any:
    import clarabel

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = _ACCURACY
    settings.tol_infeas_abs = settings.tol_infeas_rel = _PROOF
    settings.max_iter = 200
    settings.max_threads = 1
    return clarabel.DefaultSolver(
        sparse.csc_matrix(sparse.triu(P)), q, sparse.csc_matrix(A), b, cones, settings
    ).solve()


def _variable(cp: Any, n: int, names: list[str] | None, numbers: tuple[int, ...] | None) -> Any:
    """Return the cvxpy variable ``w``, whose entries can also be selected by feature name."""

    places = places_of(names)

    def position(name: str) -> int:
        return position_of(name, places, "constraints", f": w[{name!r}]")

    class Weights(cp.Variable):
        def __getitem__(self, key: Any) -> Any:
            if isinstance(key, str):
                return super().__getitem__(position(key))
            # a NumPy array or a pandas index
            listed = key.tolist() if hasattr(key, "tolist") and np.ndim(key) == 1 else key
            if isinstance(listed, (list, tuple)) and listed:
                if all(isinstance(one, str) for one in listed):
                    return super().__getitem__([position(one) for one in listed])
                refuse_number("constraints", listed[0], numbers)
            refuse_number("constraints", key, numbers)
            return super().__getitem__(key)

        @property
        def names(self) -> list[str] | None:
            return names

    return Weights(n, name="w")


def places_of(names: Iterable[object] | None) -> dict[str, int] | None:
    """Return the column of each feature by name; None without names."""
    return None if names is None else {str(name): j for j, name in enumerate(names)}


def position_of(name: str, places: Mapping[str, int] | None, argument: str, at: str) -> int:
    """Return the column of a feature by name, from :func:`places_of`; errors cite the expression ``at`` within the
    argument."""
    if places is None:
        raise BadInput(
            argument, "the features have no names", "pass X as a data frame, or count columns from 0", at=at
        )
    if name not in places:
        names = [*places]
        near = difflib.get_close_matches(name, names, 3)
        meant = f"did you mean {' or '.join(map(repr, near))}?"
        raise BadInput(
            argument, "no such feature", meant if near else f"expected {', '.join(names[:8])} ...", at=at
        )
    return places[name]


def _called(argument: str, function: Callable[[Any], Any], w: ArrayLike) -> Any:
    """Call the user's function and return its result; errors of the function are raised as BadInput for
    ``argument``."""
    try:
        return function(w)
    except BadInput as error:
        raise error.renamed(argument) from None
    except Exception as error:
        of_w = isinstance(error, AttributeError) and error.obj is w
        remedy = f"features are selected by w[{error.name!r}]" if of_w else ""  # type: ignore[attr-defined]
        raise BadInput(
            argument, f"the function raised {type(error).__name__}: {_line(error)}", remedy
        ) from error


def _listed(cp: ModuleType, constraints: Callable[[Any], Any], w: ArrayLike) -> list[Any]:
    result = _called("constraints", constraints, w)
    if not isinstance(result, (list, tuple)):
        raise BadInput("constraints", f"expected a list of cvxpy constraints, got {_line(result)}")
    for i, one in enumerate(result):
        if not isinstance(one, cp.constraints.constraint.Constraint):
            raise BadInput("constraints", f"expected a cvxpy constraint, got {_line(one)}", at=f"[{i}]")
    return list(result)


def _expression(cp: ModuleType, penalty: Callable[[Any], Any], w: ArrayLike) -> Any:
    result = _called("penalty", penalty, w)
    if not isinstance(result, cp.Expression) or not result.is_scalar():
        raise BadInput("penalty", f"expected a cvxpy expression with one value, got {_line(result)}")
    return result


def _signed(w: Any, signs: Float | None) -> list[Any]:
    if signs is None or not signs.any():
        return []
    which = np.flatnonzero(signs)
    return [np.diag(signs[which]) @ w[which] >= 0]


def _not_convex(cp: ModuleType, penalty: object, listed: list[Any], text: Callable[[Any], str]) -> BadInput:
    """Return the error for the constraint or penalty that is not convex, with cvxpy's reason."""
    blamed = [("constraints", f"[{i}]", one) for i, one in enumerate(listed) if not one.is_dcp()]
    argument, at, one = blamed[0] if blamed else ("penalty", "", penalty)
    problem = cp.Problem(cp.Minimize(0), [one]) if blamed else cp.Problem(cp.Minimize(one))
    try:
        problem.get_problem_data(cp.CLARABEL)
        reason = "not convex by cvxpy's rules"
    except cp.error.DCPError as error:
        reason = _line(error)
    return BadInput(
        argument, f"expected a convex {'set' if blamed else 'function'}, got {text(one)}: {reason}", at=at
    )


def _infeasible(cp: ModuleType, needed: list[tuple[str, Any]]) -> BadInput:
    """Return the error for infeasible constraints, which names a minimal infeasible subset."""
    # drop each constraint in turn, and leave it out if the others are still infeasible
    for candidate in list(needed):
        rest = [one for one in needed if one is not candidate]
        problem = cp.Problem(cp.Minimize(0), [one for _, one in rest])
        with contextlib.suppress(cp.error.SolverError):
            problem.solve(solver=cp.CLARABEL)
        if rest and problem.status == cp.INFEASIBLE:
            needed = rest
    texts = " and ".join(repr(text) for text, _ in needed)
    return BadInput("constraints", f"no weights satisfy {texts}" + (" together" if len(needed) > 1 else ""))


def _line(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 300 else f"{text[:300]} ..."
