"""The commands of the live service: their output, and their errors if something is missing."""

import subprocess
import sys
from pathlib import Path

import pytest

EXPERIMENT = """
key = "front"
rankers = ["prod", "new"]
production = "prod"
share = 0.2

[stop]
max_impressions = 1000
"""


@pytest.fixture(autouse=True)
def store(cli, monkeypatch):
    """Write an experiment to a file, and set the store of all commands."""
    monkeypatch.setenv("STRUCTSVM_LIVE_STORE", "sqlite:///live.db")
    Path("front.toml").write_text(EXPERIMENT)


def test_an_experiment_from_a_file(cli):
    cli("live init")
    assert cli("live create front.toml") == "front revision 1, draft\n"
    assert cli("live create front.toml --start") == "front revision 1, running\n"
    Path("front.toml").write_text(EXPERIMENT.replace('"new"', '"newer"'))
    assert cli("live create front.toml") == "front revision 2, running\n"
    agrees = "1 experiment(s), 2 revision(s), 0 closed impressions: everything agrees\n"
    assert cli("live check") == agrees
    cli("live export front -o log.jsonl")
    assert Path("log.jsonl").read_text() == ""
    cli("live forget front user")


def test_names_that_are_not_there(cli):
    cli("live init")
    assert "x: expected an experiment of this store (none)" in cli.refuses("live export x -o o")


@pytest.mark.parametrize("n_shown", [0, 1])
def test_serve_reports_a_missing_secret(cli, monkeypatch, n_shown):
    monkeypatch.setattr("structsvm.live.web.serving.serve", lambda settings: None)
    monkeypatch.setattr("structsvm.live.store.queries.Store.last_shown_at", lambda store: n_shown)
    cli("live init")
    Path("live.db.secret").unlink()
    cli("live serve --port 0")
    assert ("live.db.secret: this file of the secret is missing" in cli.err) == bool(n_shown)


def test_without_the_extra_the_error_names_it(tmp_path):
    """Run a separate process in which the packages cannot be found."""
    script = """
import importlib.util, sys
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "uvicorn" else real(name, *rest)
from structsvm.cli import main
assert main(["--help"]) == 0
sys.exit(main(["live", "check", "--store", "sqlite:///x.db"]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "'sqlalchemy>=" in done.stderr.partition("pip install ")[2]
    assert "Traceback" not in done.stderr
