"""The commands of the live service: what they write, and what they say where something is missing."""

import json
import subprocess
import sys
from pathlib import Path

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
    assert main(["live", "init", "--store", url]) == 0
    capsys.readouterr()
    assert main(["live", "create", str(path), "--store", url]) == 0
    assert capsys.readouterr().out == "front revision 1, draft\n"
    assert main(["live", "create", str(path), "--store", url, "--start"]) == 0
    assert capsys.readouterr().out == "front revision 1, running\n"
    path.write_text(EXPERIMENT.replace('"new"', '"newer"'))
    assert main(["live", "create", str(path), "--store", url]) == 0
    assert capsys.readouterr().out == "front revision 2, running\n"
    assert main(["live", "check", "--store", url]) == 0
    agrees = "1 experiment(s), 2 revision(s), 0 closed impressions: everything agrees\n"
    assert capsys.readouterr().out == agrees
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
    assert main(["live", "init", "--store", url]) == 0
    assert main(["live", "export", "x", "--store", url, "-o", str(tmp_path / "o")]) == 2
    assert "x: expected an experiment of this store (none)" in capsys.readouterr().err
    assert main(["live", "check", "--store", "mysql://x"]) == 2
    assert main(["live", "serve", "--store", "postgresql://127.0.0.1:1/x"]) == 2
    assert "expected a file for the secrets" in capsys.readouterr().err


@pytest.mark.parametrize("command", [
    ("create", "front.toml"), ("check",), ("export", "front", "-o", "o"), ("backup", "-o", "o"),
    ("forget", "front", "u"), ("clean",), ("migrate",), ("key", "add", "--scope", "show"), ("key", "list"),
    ("key", "remove", "x"), ("serve", "--port", "0"),
])  # fmt: skip
def test_only_init_and_a_service_for_trying_make_a_store(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    Path("front.toml").write_text(EXPERIMENT)
    assert main(["live", *command, "--store", "sqlite:///mistyped.db"]) == 2
    said = capsys.readouterr().err
    assert "mistyped.db: expected a file to read, got nothing there; make it with structsvm live init" in said
    assert [path.name for path in tmp_path.iterdir()] == ["front.toml"]


@pytest.mark.parametrize("name", ["origins", "trusted_proxies", "allowed_hosts"])
def test_a_list_of_the_configuration_needs_brackets(tmp_path, url, capsys, name):
    path = tmp_path / "live.toml"
    path.write_text(f'[serve]\n{name} = "127.0.0.1"')
    assert main(["live", "serve", "--port", "0", "--store", url, "--config", str(path)]) == 2
    assert 'expected a list of strings; write it in brackets, as ["..."]' in capsys.readouterr().err


@pytest.mark.parametrize(("written", "said"), [
    ('[engines.shop]\nkind = "lucene"\nurl = "http://127.0.0.1:9/s"', "engines.shop.kind='lucene': expected one of"),
    ("[serve]\ngrace = 1", "serve: key='grace': expected one of 'allowed_hosts', 'backup_every_h'"),
    ("[serve]\nport = 9000", "serve: key='port': expected one of"),
    ("[server]", "table='server': expected 'serve' or 'engines'"),
])  # fmt: skip
def test_the_configuration_is_checked_before_anything_is_said(tmp_path, url, capsys, written, said):
    path = tmp_path / "live.toml"
    path.write_text(written)
    assert main(["live", "serve", "--no-keys", "--port", "0", "--store", url, "--config", str(path)]) == 2
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert f"{path}: {said}" in error
    assert not (tmp_path / "live.db").exists()


def test_engines_need_their_configuration(tmp_path, url, capsys):
    path = tmp_path / "front.toml"
    path.write_text(EXPERIMENT + '[engines.prod]\nengine = "shop"\n[engines.new]\nengine = "shop"\n')
    assert main(["live", "create", str(path), "--store", url]) == 2
    assert "front.toml: expected --config FILE" in capsys.readouterr().err


@pytest.mark.parametrize("n_shown", [0, 1])
def test_a_secret_that_is_gone_is_told(tmp_path, url, capsys, monkeypatch, n_shown):
    monkeypatch.setattr("structsvm.live.serving.serve", lambda settings: None)
    monkeypatch.setattr("structsvm.live.store.queries.Store.last_shown_at", lambda store: n_shown)
    assert main(["live", "init", "--store", url]) == 0
    (tmp_path / "live.db.secret").unlink()
    capsys.readouterr()
    assert main(["live", "serve", "--port", "0", "--store", url]) == 0
    assert ("live.db.secret: expected the secret, got none" in capsys.readouterr().err) == bool(n_shown)


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
