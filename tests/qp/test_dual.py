"""Repair of infeasible points from solvers and callers."""

import numpy as np

from structsvm.qp.dual import feasible

GROUP, CAP = np.array([0, 0, 0, 2]), np.array([1.0, 5.0, 3.0])


def test_feasible_clips_to_the_caps_and_replaces_non_finite_masses():
    alpha = np.array([0.5, -1e-12, 0.75, 2.0])
    np.testing.assert_allclose(feasible(alpha, GROUP, CAP), [0.4, 0.0, 0.6, 2.0])
    np.testing.assert_array_equal(alpha, [0.5, -1e-12, 0.75, 2.0])  # what was given stays as it is
    np.testing.assert_array_equal(
        feasible(np.array([np.nan, np.inf, 0.25, -3.0]), GROUP, CAP), [0, 0, 0.25, 0]
    )
    np.testing.assert_array_equal(feasible(None, GROUP, CAP), np.zeros(4))
