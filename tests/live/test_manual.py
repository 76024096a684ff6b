"""The manual pages: configurations are valid, commands have the options shown, and recipes in Python run."""

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import typer
from blocks import blocks

from structsvm.cli import app
from structsvm.live.client import Client
from structsvm.live.contract.config import check_config, check_key
from structsvm.live.contract.settings import Settings
from structsvm.live.engines.engine import engines_of, with_hashes

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
BLOCKS = [block for name in ("live.md", "live_recipes.md") for block in blocks(DOCS / name)]


def of(kind):
    return [block.code for block in BLOCKS if block.language == kind]


def test_configurations_are_taken(monkeypatch):
    monkeypatch.setenv("SHOP_AUTH", "Basic x")
    tables, experiments = {}, []
    for code in of("toml"):
        read = tomllib.loads(code)
        if "key" in read:
            experiments.append(read)
        else:
            assert set(read) <= {"engines", "serve"}
            Settings.from_dict({"store": "sqlite:///x.db", **read.get("serve", {})})
            assert len({one.dialect.label for one in engines_of(read["engines"]).values()}) == 1
            tables.update({name: table for name, table in read["engines"].items() if name not in tables})
    assert len(experiments) == 3
    for read in experiments:
        check_key(read.pop("key"))
        with_hashes(check_config(read), tables)


def commands():
    """Yield the lines of all blocks that call the program."""
    for code in (*of("sh"), *of("ini")):
        for line in code.splitlines():
            line = re.sub("^(sudo -u structsvm |ExecStart=)/opt/structsvm/bin/", "", line)
            if line.startswith("structsvm "):
                yield line
    for code in of("dockerfile"):
        yield " ".join(re.findall(r'"([^"]*)"', code))


@pytest.mark.parametrize("line", list(commands()))
def test_commands_have_these_options(line):
    words = shlex.split(line, comments=True)[1:]
    command = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("-")} <= known


def test_the_recipes_contain_commands():
    assert len(list(commands())) >= 12


def test_the_python_of_the_recipes(serve):
    served = serve()
    served.create("shop", rankers=["old", "new"])
    names = {}
    for code in of("python"):
        exec(compile(code, "live_recipes.md", "exec"), names)
    names["live"] = Client(f"http://127.0.0.1:{served.port}", timeout_s=10)
    old, new = [f"d{k}" for k in range(40)], [f"d{k}" for k in reversed(range(40))]
    rank = {"old": lambda q: old, "new": lambda q: new}
    # several requests, because a service on a busy machine may answer with production's list, without a token
    tries = ([names["results"]("lamp", "s", f"r{k}", *rank.values(), p) for p in (0, 1)] for k in range(99))
    pages = next(pages for pages in tries if all(token for _, token in pages))
    assert len({one for ids, _ in pages for one in ids}) == 20
    page = next(page for k in range(99) if (page := names["economical"]("lamp", "s", f"e{k}", rank)).token)
    assert page.serve == "interleaved"
    assert names["live"].click(page.token, page.documents[3])


def test_the_calls_of_the_manual(serve):
    """Send the calls like curl: POST if there is a body, with the token of the previous answer."""
    served = serve()
    lines = [line for code in of("sh") for line in code.splitlines() if line.startswith("curl ")]
    token = None
    for words in map(shlex.split, lines[:5]):  # the others need keys
        method = words.pop(words.index("-X") + 1) if "-X" in words else "POST" if "-d" in words else "GET"
        path = next(word for word in words if "://" in word).removeprefix("http://127.0.0.1:8808")
        body = words[words.index("-d") + 1].replace("TOKEN", str(token)) if "-d" in words else None
        status, answer = served.call(method, path, None if body is None else json.loads(body))
        assert status in (200, 201), answer
        token = answer.get("token", token)
        if path == "/v1/clicks":
            assert answer["accepted"] == 1
    assert answer["experiment"]["key"] == "trial"
    assert answer["pending"] == 1
