"""The command reference of the manual, and options that several commands share."""

import importlib.util
import re
from pathlib import Path

import pytest
import typer

import structsvm.cli

DOCS = Path(__file__).resolve().parents[2] / "docs"
spec = importlib.util.spec_from_file_location("commands", DOCS / "commands.py")
commands = importlib.util.module_from_spec(spec)
spec.loader.exec_module(commands)


def with_option(option):
    """Return the commands that have an option."""
    return [
        " ".join(words)
        for words, command in commands.leaves(typer.main.get_command(structsvm.cli.app))
        if any(option in one.opts for one in command.params)
    ]


def test_the_page_is_up_to_date():
    assert commands.PAGE.read_text(encoding="utf-8") == commands.page(), "run: python docs/commands.py"


def test_every_option_is_in_the_section_of_its_command(cli):
    sections = dict(part.split("\n", 1) for part in commands.page().split("\n## ")[1:])
    for words, command in commands.leaves(typer.main.get_command(structsvm.cli.app)):
        section = sections[" ".join(["structsvm", *words])]
        for one in command.params:
            for name in one.opts if one.param_type_name == "option" else [one.metavar or one.name.upper()]:
                assert f"`{name}" in section or f", {name}" in section, (words, name)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--seed", "-1", "--seed -1: expected an integer from 0 to 2147483647"),
        ("--jobs", "0", "--jobs 0: expected a number of threads of at least 1, or -1 for all processors"),
    ],
)
def test_an_option_is_checked_in_the_same_way_by_all_commands(cli, option, value, message):
    having = with_option(option)
    assert len(having) > 6
    for command in having:
        assert message in cli.refuses(f"{command} {option} {value}"), command


def test_the_cheat_sheet_has_commands_and_names_that_exist():
    page = (DOCS / "cheat_sheet.md").read_text(encoding="utf-8")
    known = {
        " ".join(words): command
        for words, command in commands.leaves(typer.main.get_command(structsvm.cli.app))
    }
    for line in re.findall(r"`structsvm ([a-z][^`]+)`", page):
        words = line.split()
        command = known[" ".join(words[: 1 if words[0] in known else 2])]
        options = {name for one in command.params for name in one.opts} | {"-h"}
        assert {word for word in words if word.startswith("-")} <= options, line
    folders = (
        "",
        ".metrics",
        ".export",
        ".readers",
        ".estimators",
        ".estimators.baselines",
        ".clicks",
        ".online",
    )
    folders += (
        ".online.interleaving",
        ".online.statistics",
        ".online.arena",
        ".online.bandits",
        ".dask",
        ".live",
    )
    rooms = [importlib.import_module(f"structsvm{folder}") for folder in folders]
    for code in re.findall(r"\| (`[^|]*) \|", page):
        for name in re.findall(r"(?<![.\w])([A-Za-z_]\w+)\(", code):
            assert name == "cross_val_score" or any(hasattr(room, name) for room in rooms), name
