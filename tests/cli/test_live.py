"""The commands of the live service: what they write, and what they say where something is missing."""

import json
import subprocess
import sys

import pytest

from structsvm.cli import main

EXPERIMENT = """
key = "front"
rankers = ["prod", "new"]
production = "prod"
share = 0.2

[stop]
max_impressions = 1000
"""


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'live.db'}"


def test_an_experiment_from_a_file(tmp_path, url, capsys):
    path = tmp_path / "front.toml"
    path.write_text(EXPERIMENT)
    assert main(["live", "create", str(path), "--store", url]) == 0
    assert capsys.readouterr().out == "front revision 1, draft\n"
    assert main(["live", "create", str(path), "--store", url, "--start"]) == 0
    assert capsys.readouterr().out == "front revision 1, running\n"
    path.write_text(EXPERIMENT.replace('"new"', '"newer"'))
    assert main(["live", "create", str(path), "--store", url]) == 0
    assert capsys.readouterr().out == "front revision 2, running\n"
    assert main(["live", "check", "--store", url]) == 0
    assert main(["live", "export", "front", "--store", url, "-o", str(tmp_path / "log.jsonl")]) == 0
    assert (tmp_path / "log.jsonl").read_text() == ""
    assert main(["live", "forget", "front", "user", "--store", url]) == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("share = 0.2", "share = 2"), "share=2: expected `float` <= 1.0"),
        (('key = "front"', ""), 'expected key = "NAME"'),
        (('key = "front"', 'key = "a/b"'), "key: expected up to 64 letters"),
        (("share = 0.2", "shares = 0.2"), "shares=0.2: expected one of"),
        (("share = 0.2", "share = "), "expected TOML"),
    ],
)
def test_a_wrong_file(tmp_path, url, capsys, change, said):
    path = tmp_path / "front.toml"
    path.write_text(EXPERIMENT.replace(*change))
    assert main(["live", "create", str(path), "--store", url]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert str(path) in error
    assert error.count("\n") == 1


def test_names_that_are_not_there(tmp_path, url, capsys):
    assert main(["live", "export", "x", "--store", url, "-o", str(tmp_path / "o")]) == 2
    assert "expected a file to read" in capsys.readouterr().err
    assert main(["live", "migrate", "--store", url]) == 0
    assert main(["live", "export", "x", "--store", url, "-o", str(tmp_path / "o")]) == 2
    assert "x: expected an experiment of this store (none)" in capsys.readouterr().err
    assert main(["live", "check", "--store", "mysql://x"]) == 2
    assert main(["live", "serve", "--store", "postgresql://127.0.0.1:1/x"]) == 2
    assert "expected a file for the secrets" in capsys.readouterr().err


def test_without_the_extra_the_error_names_it(tmp_path):
    """In a process of its own, where the packages cannot be found."""
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
    assert "pip install 'structsvm-ranking[live]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_line_loads_none_of_it():
    script = """
import json, sys
import structsvm, structsvm.cli
web = {"starlette", "uvicorn", "sqlalchemy", "httpx", "prometheus_client", "psycopg"}
print(json.dumps(sorted(web & set(sys.modules))))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
