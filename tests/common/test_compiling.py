"""A clock that stops while kernels are compiled, and messages about compilation."""

import io
import warnings

import pytest

from structsvm.common import compiling


@pytest.fixture
def state(monkeypatch):
    monkeypatch.setattr(compiling, "_state", compiling._State())
    now = [100.0]
    monkeypatch.setattr(compiling.time, "perf_counter", lambda: now[0])
    return now


def test_the_clock_stands_still_while_something_is_compiled(state, tmp_path):
    assert compiling.clock() == 100.0
    state[0] = 101.0
    compiling.begun(tmp_path, usual=True)
    state[0] = 105.0
    assert compiling.clock() == 101.0
    compiling.begun(tmp_path, usual=True)  # a kernel that the first one calls
    state[0] = 106.0
    compiling.ended()
    assert compiling.clock() == 101.0
    assert compiling.underway()
    state[0] = 110.0
    compiling.ended()
    assert compiling.clock() == 101.0
    assert not compiling.underway()
    state[0] = 112.0
    assert compiling.clock() == 103.0
    with compiling.keeping():
        state[0] = 120.0
    assert compiling.clock() == 103.0
    assert compiling.compiled() == 2


def test_listeners_are_told_once(state, tmp_path):
    told = []
    for _ in range(2):
        with compiling.telling(told.append):
            for _ in range(3):
                compiling.begun(tmp_path, usual=True)
                compiling.ended()
    compiling.begun(tmp_path, usual=True)
    assert told == ["compiling, once"] * 2


def test_another_folder_or_none_is_named_once_per_process(state, tmp_path):
    with warnings.catch_warnings(record=True, action="always") as said:
        for place in (tmp_path, tmp_path, None):
            compiling.begun(place, usual=False)
            compiling.ended()
    assert [str(tmp_path) in str(each.message) for each in said] == [True]
    assert said[0].filename == __file__


@pytest.mark.parametrize(("seen", "said"), [(True, "structsvm: compiling, once\n"), (False, "")])
def test_a_message_on_a_terminal_announces_long_compilation_once(state, tmp_path, monkeypatch, seen, said):
    told = io.StringIO()
    told.isatty = lambda: seen
    monkeypatch.setattr(compiling.sys, "stderr", told)
    for _ in range(4):
        compiling.begun(tmp_path, usual=True)
        assert told.getvalue() == (said if state[0] > 101 else "")
        state[0] += 0.6
        compiling.ended()
    assert told.getvalue() == said
