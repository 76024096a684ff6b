"""Parameters are fields that subclasses inherit: each is documented, and none without effect is accepted."""

import inspect
import json
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import structsvm
from structsvm import SVMMap, load
from structsvm.clicks import ClickSVMCV
from structsvm.common.estimator_parameters import _entries, _sections, parameters
from structsvm.dask import DaskStructuralRanker, DaskStructuralRankerCV
from structsvm.features import LeafFeatures

RANKERS = [
    *(
        c
        for name in structsvm.__all__
        if isinstance(c := getattr(structsvm, name), type) and hasattr(c, "score")
    ),
    ClickSVMCV,
    DaskStructuralRanker,
    DaskStructuralRankerCV,
    LeafFeatures,
]


@pytest.mark.parametrize("cls", RANKERS)
def test_help_describes_each_parameter(cls):
    names = list(inspect.signature(cls).parameters)
    assert list(_entries(_sections(cls.__doc__)["Parameters"])) == names
    assert "Attributes" in _sections(cls.__doc__)
    described = _sections(cls.fit.__doc__)
    if "Parameters" in described:  # else it says where they are
        assert list(_entries(described["Parameters"])) == list(inspect.signature(cls.fit).parameters)[1:]
        assert described["Returns"].startswith(("self", "SVMDiv"))
    assert "As in :class:`SVMMap`" not in cls.__doc__


def test_help_is_complete_where_a_class_says_little_itself():
    text = " ".join(SVMMap.__doc__.split())
    assert "Whether to constrain the weights to be >= 0." in text
    assert "loss :" not in text
    assert "scores_ :" not in text
    assert text.index("Parameters") < text.index("Attributes") < text.index("Examples")


def test_a_class_says_what_differs():
    @parameters
    class Base(BaseEstimator):
        """Base.

        Parameters
        ----------
        a : int, default=1
            First.
        b : int, default=2
        """

        a: int = 1
        b: int = 2

    @parameters
    class Other(Base):
        """Other.

        Parameters
        ----------
        b : int, default=3
            Another.
        """

        b: int = 3

    assert (
        Other.__doc__.split("----------\n")[1]
        == "a : int, default=1\n    First.\nb : int, default=3\n    Another."
    )
    assert (Other(5).get_params(), repr(Other(b=4))) == ({"a": 5, "b": 3}, "Other(b=4)")


@pytest.mark.parametrize(
    "name",
    ["StructuralRanker", "SVMMap", "SVMRoc", "SVMNDCG", "PairwiseSVM", "OrdinalSVM", "SVMDiv", "ClickSVM"],
)
def test_no_seed_where_training_is_deterministic(name):
    with pytest.raises(TypeError, match="random_state"):
        getattr(structsvm, name)(random_state=0)


def test_a_model_of_a_version_that_had_more_parameters_is_read(tmp_path):
    model = SVMMap(C=2.0).fit([[1.0], [0.0]], [1, 0], qid=0)
    model.random_state, model.loss = None, "map"  # as they were saved once
    model.save(tmp_path / "m.npz")
    back = load(tmp_path / "m.npz")
    assert vars(back).keys() == vars(SVMMap(C=2.0).fit([[1.0], [0.0]], [1, 0], qid=0)).keys()
    np.testing.assert_array_equal(back.coef_, model.coef_)


@pytest.mark.slow
def test_without_docstrings():
    code = "import json, structsvm as s; m = s.SVMMap(3); print(json.dumps([repr(m), m.get_params()['tol']]))"
    ran = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == ["SVMMap(C=3)", 1e-3]
