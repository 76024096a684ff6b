"""Checks of values, and the error they raise."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from structsvm.common import checks
from tests.refusing import refused


def test_bad_input_renames_arguments_and_spells_flags():
    error = checks.BadInput("solver", "expected another", "choose {solver}", value="sgd")
    assert str(error.renamed("trainer")) == "trainer='sgd': expected another; choose solver="
    assert str(checks.BadInput("train.txt:3", "expected a label")) == "train.txt:3: expected a label"
    flag = checks.BadInput("flag", "expected no flag", value=True)
    assert flag.spelled({"flag": "--flag"}) == "--flag: expected no flag"


@pytest.mark.parametrize("value", [3.5, "a", None, lambda: 0])
def test_the_error_survives_a_worker_process(value):
    error = checks.BadInput(
        "C", "expected a number with {tol}", "see {Cs}", value=value, at="[1]", others={"tol": value}
    )
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert again.spelled({"Cs": "--C"}) == error.spelled({"Cs": "--C"})
    assert (again.argument, again.problem, again.remedy) == (error.argument, error.problem, error.remedy)
    without = checks.BadInput("C", "expected a number")
    assert str(pickle.loads(pickle.dumps(without))) == str(without)


@pytest.mark.parametrize("value", [0, -1, np.inf, np.nan, "1", None, True, np.float64("nan"), 1j, [1]])
def test_a_finite_number_above_zero(value):
    refused("expected a finite number > 0", checks.check_positive, "C", value)


@pytest.mark.parametrize("value", [1, 0.5, np.float32(2), np.int64(3), 1e-300])
def test_a_positive_number_comes_back_as_a_float(value):
    assert type(checks.check_positive("C", value)) is float
    assert checks.check_positive("C", value) == value


def test_ends_of_a_range():
    checks.check_number("x", 1, 1, 2)
    checks.check_number("x", 2, 1, 2)
    assert checks.check_whole("k", np.int32(1)) == 1
    assert checks.check_whole("k", 10**400) == 10**400
    refused(r"^x=2.5: expected a number from 1 to 2$", checks.check_number, "x", 2.5, 1, 2)
    refused(r"^k=1.0: expected an integer >= 1$", checks.check_whole, "k", 1.0)
    refused(r"^k=True: ", checks.check_whole, "k", True)
    refused(r"^x=0: expected a number in \(0, 1\)$", checks.check_fraction, "x", 0)


def test_flags_and_choices():
    checks.check_flag("positive", np.bool_(True))
    checks.check_flag("positive", False)
    for value in (1, "yes", None):
        refused("expected True or False", checks.check_flag, "positive", value)
    checks.check_choice("kind", "a", ("a", "b"))
    for value in ("c", ["a"], None):
        refused("expected 'a' or 'b'", checks.check_choice, "kind", value, {"a": 1, "b": 2})


def test_fields_are_spelled_for_python_and_for_the_command_line():
    error = checks.BadInput(
        "solver",
        "expected 'newton' with {loss}, got '{tol}'",
        "raise {tol}, state {positive=True} or {views=3}",
        value="sgd",
        at="[2]",
        code="model.solver",
        others={"loss": "hinge"},
    )
    assert str(error) == (
        "solver='sgd'[2]: expected 'newton' with loss='hinge', got '{tol}'; raise tol=, state positive=True or views=3 "
        "(model.solver)"
    )
    options = {"solver": "--solver", "loss": "--loss", "tol": "--tol", "positive": "--positive"}
    assert error.spelled(options) == (
        "--solver sgd[2]: expected 'newton' with --loss hinge, got '{tol}'; raise --tol, state --positive or views=3 "
        "(in Python)"
    )
    assert error.fault == "solver='sgd'[2]: expected 'newton' with loss='hinge', got '{tol}'"


def test_a_file_is_no_argument_of_the_same_name():
    assert checks.BadInput(Path("fill"), "expected data").spelled({"fill": "--fill"}) == "fill: expected data"
    within = checks.BadInput("X", "expected a number", "state {fill}", at="[3, 1]").within(Path("fill"))
    assert within.spelled({"fill": "--fill"}) == "fill: X[3, 1]: expected a number; state --fill"
    assert str(within.renamed("X")).startswith("X: X[3, 1]")
