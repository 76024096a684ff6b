"""What tests of the command line share."""

import json
import shlex
from contextlib import nullcontext
from itertools import chain

import pytest

import structsvm.cli


@pytest.fixture(autouse=True)
def compile_in_silence(request, monkeypatch):
    """Leave out what is said of compilation, which depends on what has run before."""
    if "test_warm_up" not in request.node.nodeid:
        monkeypatch.setattr(structsvm.cli, "telling", lambda listener: nullcontext())


class CommandLine:
    """Runs commands in this process: texts are split as by a shell, anything else is one word."""

    def __init__(self, capsys):
        self._capsys = capsys

    def code(self, *words):
        """Run a command; what it printed is in ``out`` and ``err``."""
        split = (shlex.split(word) if isinstance(word, str) else [str(word)] for word in words)
        self._capsys.readouterr()
        code = structsvm.cli.main([*chain(*split)])
        self.out, self.err = self._capsys.readouterr()
        return code

    def __call__(self, *words):
        """Return what a command printed that did its work."""
        assert self.code(*words) == 0, self.err
        return self.out

    def json(self, *words):
        """Return the record that a command printed in one line."""
        text = self(*words, "--json")
        assert text.count("\n") == 1
        return json.loads(text)

    def refuses(self, *words):
        """Return the line that says why a command did nothing; there may be remarks before it."""
        assert self.code(*words) == 2, self.err
        *remarks, error = self.err.splitlines()
        assert error.startswith("structsvm: error: ")
        assert all(remark.startswith("structsvm: ") for remark in remarks)
        assert "Traceback" not in self.err
        assert self.out == ""
        return error


@pytest.fixture
def cli(capsys, tmp_path, monkeypatch):
    """The command line, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return CommandLine(capsys)
