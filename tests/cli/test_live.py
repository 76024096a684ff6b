"""The commands of the live service: what they write, and what they say where something is missing."""

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
    """An experiment in a file, and the store of all commands."""
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


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("share = 0.2", "share = 2"), "share=2: expected `float` <= 1.0"),
        (('key = "front"', ""), 'expected key = "NAME"'),
        (('key = "front"', 'key = "a/b"'), "key: expected up to 64 letters"),
        (("share = 0.2", "shares = 0.2"), "shares=0.2: expected one of"),
        (("share = 0.2", "share = "), "expected TOML"),
        (("[stop]", '[engines.prod]\nengine = "shop"\n[engines.new]\nengine = "shop"\n[stop]'),
         "expected --config FILE"),
    ],
)  # fmt: skip
def test_a_wrong_file(cli, change, said):
    Path("front.toml").write_text(EXPERIMENT.replace(*change))
    error = cli.refuses("live create front.toml")
    assert said in error
    assert "front.toml" in error


def test_names_that_are_not_there(cli):
    cli("live init")
    assert "x: expected an experiment of this store (none)" in cli.refuses("live export x -o o")
    cli.refuses("live check --store mysql://x")
    said = cli.refuses("live serve --store postgresql://127.0.0.1:1/x")
    assert "expected a file for the secrets" in said


@pytest.mark.parametrize("command", [
    "create front.toml", "check", "export front -o o", "backup -o o", "forget front u", "clean", "migrate",
    "key add --scope show", "key list", "key remove x", "serve --port 0",
])  # fmt: skip
def test_only_init_and_a_service_for_trying_make_a_store(cli, tmp_path, command):
    said = cli.refuses(f"live {command} --store sqlite:///mistyped.db")
    assert "mistyped.db: expected a file to read, got nothing there; make it with structsvm live init" in said
    assert [path.name for path in tmp_path.iterdir()] == ["front.toml"]


@pytest.mark.parametrize(("written", "said"), [
    ('[engines.shop]\nkind = "lucene"\nurl = "http://127.0.0.1:9/s"', "engines.shop.kind='lucene': expected one of"),
    ("[serve]\ngrace = 1", "serve: key='grace': expected one of 'allowed_hosts', 'backup_every_h'"),
    ("[serve]\nport = 9000", "serve: key='port': expected one of"),
    ("[server]", "table='server': expected 'serve' or 'engines'"),
])  # fmt: skip
def test_the_configuration_is_checked_before_anything_is_said(cli, written, said):
    Path("live.toml").write_text(written)
    error = cli.refuses("live serve --no-keys --port 0 --config live.toml")
    assert f"live.toml: {said}" in error
    assert cli.err == f"{error}\n"
    assert not Path("live.db").exists()


@pytest.mark.parametrize("name", ["origins", "trusted_proxies", "allowed_hosts"])
def test_a_list_of_the_configuration_needs_brackets(cli, name):
    Path("live.toml").write_text(f'[serve]\n{name} = "127.0.0.1"')
    said = cli.refuses("live serve --port 0 --config live.toml")
    assert 'expected a list of strings; write it in brackets, as ["..."]' in said


@pytest.mark.parametrize("n_shown", [0, 1])
def test_a_secret_that_is_gone_is_told(cli, monkeypatch, n_shown):
    monkeypatch.setattr("structsvm.live.serving.serve", lambda settings: None)
    monkeypatch.setattr("structsvm.live.store.queries.Store.last_shown_at", lambda store: n_shown)
    cli("live init")
    Path("live.db.secret").unlink()
    cli("live serve --port 0")
    assert ("live.db.secret: expected the secret, got none" in cli.err) == bool(n_shown)


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
