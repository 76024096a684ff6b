"""Kernels that run as Python for little work: the same bits, and when compiled code is used."""

import numpy as np
import pytest

from structsvm.common import interpreted
from structsvm.common.interpreted import as_python, compiling_all, run
from structsvm.common.kernel import kernel
from structsvm.features import LeafFeatures, lookup, ranks
from structsvm.qp import active_set


@pytest.fixture
def both(monkeypatch):
    """Let ``run`` compute both ways, and compare all outputs; return the names of the kernels."""

    def compare(compiled, seconds, *args):
        called.add(compiled.py_func.__name__)
        arrays = [one for one in _arrays(args) if one.flags.writeable]
        before = [one.copy() for one in arrays]
        with np.errstate(all="ignore"):
            as_python(compiled)(*args)
        found = [one.tobytes() for one in arrays]
        for one, old in zip(arrays, before, strict=True):
            one[...] = old
        compiled(*args)
        assert [one.tobytes() for one in arrays] == found

    called: set[str] = set()
    for module in (active_set, lookup, ranks):
        monkeypatch.setattr(module, "run", compare)
    return called


def _arrays(value):
    if isinstance(value, tuple):
        return [one for each in value for one in _arrays(each)]
    return [value] if isinstance(value, np.ndarray) else []


@pytest.mark.parametrize("seed", range(40))
def test_quadratic_programs_have_the_same_bits(both, seed):
    rng = np.random.default_rng(seed)
    n, n_groups = int(rng.integers(1, 30)), int(rng.integers(1, 5))
    planes = rng.normal(size=(n, int(rng.integers(1, 12)))) * 10.0 ** rng.integers(-3, 4)
    if n > 2:
        planes[1] = planes[0]  # singular
    group, cap = rng.integers(0, n_groups, n), 10.0 ** rng.integers(-4, 6, n_groups)
    start = None
    for loss in (rng.random(n), rng.random(n)):  # the second from the solution of the first
        start = active_set.solve(planes @ planes.T, loss, group, cap.astype(float), start).alpha
    assert both == {"_iterate"}


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("n_leaves", [4, 80])
def test_leaves_have_the_same_bits(both, kind, n_leaves):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 3)) * [1.0, 1e6, 1e-6]
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 2] = np.exp(20 * rng.random(240))  # far from even: cells by the bits of the number
    trees = LeafFeatures(n_trees=5, n_leaves=n_leaves, min_rows=1, n_bins=3, random_state=0)
    trees.fit(X, rng.integers(0, 3, 240), qid=np.repeat(np.arange(12), 20))
    trees.transform(X.astype(kind))
    assert {"_by_masks" if n_leaves == 4 else "_by_walking", "_place_linear", "_place_by_bits"} <= both


@pytest.fixture
def double(monkeypatch, tmp_path):
    """Return a kernel without compiled code on disk, whose mark is in an empty folder."""
    monkeypatch.setattr(interpreted, "is_kept", lambda compiled, arguments: False)
    monkeypatch.setattr(interpreted, "mark_of", lambda compiled: tmp_path / "mark")

    @kernel
    def double(x):
        x *= 2.0

    return double


def test_compiled_when_python_would_take_long(double):
    x = np.ones(3)
    for _ in range(2):
        run(double, 0.4, x)
    assert not double.signatures
    run(double, 0.4, x)  # the second's worth of work in Python is used up
    assert double.signatures
    run(double, 0.0, x)
    assert x.tolist() == [16.0] * 3


def test_much_work_in_python_lets_the_next_process_compile(double, tmp_path):
    run(double, 0.2, np.ones(3))
    assert not (tmp_path / "mark").exists()
    run(double, 0.2, np.ones(3))
    assert (tmp_path / "mark").exists()
    assert not double.signatures
    interpreted._states.clear()  # as in another process
    run(double, 0.0, np.ones(3))
    assert double.signatures


def test_compiled_when_all_is(double):
    with compiling_all():
        run(double, 0.0, np.ones(3))
    assert double.signatures


def test_code_on_disk_is_used(double, monkeypatch):
    monkeypatch.setattr(interpreted, "is_kept", lambda compiled, arguments: True)
    run(double, 0.0, np.ones(3))
    assert double.signatures
