"""Names of files and columns that look like arguments: every refusal and warning keeps them.

A command says the same about a file called ``tol=3.csv`` as about one called ``nnnnn.csv``, except for the name.
"""

import shlex

import numpy as np
import pytest
import typer

import structsvm.cli
from structsvm.cli.terminal import _ARGUMENTS, _EVERYWHERE
from tests.laws import LAW

COMMANDS = (
    "train {} -o m.npz",
    "train {} -o m.npz --trees",
    "search {} --C 1",
    "compare {} --folds 2",
    "evaluate {} {}",
    "predict {} {} -o o.txt",
    "convert {} o.store",
    "export {} --to json",
    "show {}",
    "explain {} {} --query 1 --a 1 --b 2",
    "fuse {} {} --qrels {} -o o.run",
    "interleave analyse {}",
    "clicks judge {} -o o.tsv",
    "clicks evaluate {} {}",
    "arena report {}",
    "diversify train {} -o m.npz",
    "bandit run {}",
    "datasets describe {}",
)


def arguments():
    """Return the names of all arguments that options set, and of the options themselves."""
    names = {key.partition("=")[0] for key in _EVERYWHERE}

    def walk(command):
        for each in getattr(command, "commands", {}).values():
            walk(each)
        for one in command.params:
            names.update({one.name, _ARGUMENTS.get(one.name, one.name).partition("=")[0]})

    walk(typer.main.get_command(structsvm.cli.app))
    return sorted(names)


NAMES = arguments()
VALUES = ("3", "map", "0.5", "True", "zscore", "x y", "1e-3", "")


def look_alike(rng):
    name, value = NAMES[rng.integers(len(NAMES))], VALUES[rng.integers(len(VALUES))]
    form = ("{}={}", "a {}={}", "{}={} b", "{{{}}}{}", "{{{}={}}}")[rng.integers(5)]
    return form.format(name, value)


@pytest.mark.parametrize("n", [40, pytest.param(10_000, marks=LAW)])
def test_paths_are_kept(cli, tmp_path, monkeypatch, n):
    monkeypatch.chdir(tmp_path)
    kept = 0
    for seed in range(n):
        rng = np.random.default_rng(seed)
        name = look_alike(rng)
        end = ("", ".csv", ".txt", ".jsonl", "/rows.csv", ".npz")[rng.integers(6)]
        content = ("", "1 2 3\n", "qid,label,a\n1,x,2\n", "not data")[rng.integers(4)]
        there, command, errors = rng.random() < 0.5 and "/" not in end, COMMANDS[seed % len(COMMANDS)], []
        for path in (name + end, "n" * len(name) + end):
            if there:
                (tmp_path / path).write_text(content)
            errors.append(cli.refuses(command.format(*[shlex.quote(path)] * command.count("{}"))))
            if there:
                (tmp_path / path).unlink()
        expected = errors[1].replace("n" * len(name), name)
        assert errors[0] == expected
        kept += name in expected
    assert kept > n / 2


@pytest.mark.parametrize("n", [30, pytest.param(1_000, marks=LAW)])
def test_columns_are_kept(cli, tmp_path, monkeypatch, n):
    monkeypatch.chdir(tmp_path)
    for seed in range(n):
        rng = np.random.default_rng(seed)
        name = look_alike(rng)
        cells = ("word", "inf", "")[rng.integers(3)]
        (tmp_path / "t.csv").write_text(f"qid,label,{name},x\n1,1,{cells},2\n1,0,3,1\n")
        error = cli.refuses("train t.csv -o m.npz")
        assert name in error, (name, error)


@pytest.mark.filterwarnings("always::UserWarning")
def test_warnings_name_options(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{q},{d % 2},{1e6 * d + q},{(d * 7 + q) % 5 / 1e3}" for q in range(3) for d in range(6)]
    (tmp_path / "t.csv").write_text("\n".join(["qid,label,scale=3,x", *rows, ""]))
    cli("train t.csv -o m.npz")
    assert "set --scale zscore or 'minmax'" in cli.err


def test_a_column_with_an_ambiguous_name_is_reported_once(tmp_path, capsys):
    """A column called ``relevance`` may be a feature; ``query`` and ``doc_id`` may not."""
    (tmp_path / "t.csv").write_text("query,doc_id,Relevance,bm25\na,x,1,2\na,y,0,1\n")
    assert structsvm.cli.main(["train", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/m.npz"]) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if "is taken for" in line]
    said = f"structsvm: {tmp_path}/t.csv: the column 'Relevance' is taken for the label; name another with --label"
    assert notes == [said]
