"""A new member of each kind needs only its file and its lines in one table to be available everywhere."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def _subclass(base, name, /, **members):
    """Return the source of a class that differs from its base by a few members."""
    module, _, of = base.rpartition(".")
    body = "".join(f"    {key} = {value!r}\n" for key, value in members.items())
    return f"from {module} import {of}\n\n\nclass {name}({of}):\n    'A made-up one.'\n\n{body}"


# kind -> new files, and (file, line it goes before, line)
FILES = {
    "oracles/made.py": """
from dataclasses import dataclass
from typing import ClassVar

from structsvm.oracles.average_precision import AveragePrecision


@dataclass(frozen=True)
class MadeLoss:
    '''A made-up loss.'''

    label: ClassVar[str] = "made"
    cutoff: ClassVar[str] = "optional"

    k: int | None = None
    relevance: float = 1.0

    def bind(self, y, offsets):
        return AveragePrecision(self.relevance).bind(y, offsets)
""",
    "online/bandits/made.py": _subclass(
        "structsvm.online.bandits.rucb.RUCB",
        "MadeBandit",
        label="made",
        assumes="a good deal",
        compiled="structsvm.online.bandits.compiled.made",
    ),
    "online/bandits/compiled/made.py": "from structsvm.online.bandits.compiled.rucb import play\n",
    "online/interleaving/made.py": _subclass(
        "structsvm.online.interleaving.balanced.Balanced", "MadeInterleaver", name="made"
    ),
    "online/users/made.py": _subclass("structsvm.online.users.by_position.PositionBasedUser", "MadeUser"),
    "estimators/made.py": _subclass("structsvm.estimators.structural.StructuralRanker", "MadeRanker"),
    "clicks/made.py": """
from structsvm.clicks.cascades import DependentClickModel
from structsvm.clicks.cells import ClickCells


def read_made(path, *, session=None):
    '''Read a made-up log.'''
    return ClickCells.from_arrays([1, 1], [2, 3], [1, 2], [0, 1], session=session)


class MadeClickModel(DependentClickModel):
    '''A made-up click model.'''

    abbreviation = "made"
""",
    "trainers/made_plain.py": """
import numpy as np

from structsvm.trainers.contract import Options, Start

supports = {"hinge"}


def made_plain(problem, C, options=Options(), start=None):
    '''Return zero weights.'''
    record = (start or Start()).recorder(problem, C, options)
    w = np.zeros(problem.n_features)
    record.upper(C * problem.cut(w).loss, w)
    record.stopped = True
    record.passed()
    return record.finish("made_plain", n_iterations=1, n_cuts=0)
""",
    "trainers/made_able.py": """
from structsvm.trainers.contract import ABILITIES
from structsvm.trainers.made_plain import made_plain

supports = set(ABILITIES)


def made_able(problem, C, options, start):
    '''Return zero weights, whatever is asked for.'''
    return made_plain(problem, C, options, start)
""",
    "cli/made.py": """
from typing import Annotated

import typer


def made(loss: Annotated[str, typer.Option(help="One of {losses}.")] = "map") -> None:
    '''Do what was made up.'''
""",
}
_MEASURE = """def made(ranking, settings):
    return average_precision(ranking, settings)


"""
_CHOICE = """class MadeChoice(RandomChoice):
    '''A made-up choice.'''

    label = "made"


"""


def _lines(room, module, *names, **labels):
    """Return lines of ``__init__.py``: imports, and entries of the tables of labels."""
    init = f"{room}/__init__.py".removeprefix("/")
    imports = "".join(f"    from structsvm.{module} import {name} as {name}\n" for name in names)
    entries = [("    from structsvm", imports)]
    entries += [(f'"{first}": ', f'"made": "{name}", ') for first, name in labels.items()]
    return [(init, before, line) for before, line in entries]


LINES = [
    *_lines("oracles", "oracles.made", "MadeLoss", map="MadeLoss"),
    ("oracles/__init__.py", '"map": ', '"made@k": "MadeLoss", '),
    *_lines("online/bandits", "online.bandits.made", "MadeBandit", btm="MadeBandit"),
    *_lines("online/interleaving", "online.interleaving.made", "MadeInterleaver", balanced="MadeInterleaver"),
    *_lines("online/users", "online.users.made", "MadeUser"),
    *_lines("clicks", "clicks.made", "read_made", "MadeClickModel", log="read_made", CCM="MadeClickModel"),
    *_lines("", "estimators.made", "MadeRanker"),
    ("cli/__init__.py", '    "demo": "demo",\n', '    "made": "made",\n'),
    ("trainers/choosing_solver.py", '"n_slack", ', '"made_plain", "made_able", '),
    ("clicks/judging.py", '    "sdbn": Method', '    "made": Method(_coec, (0.5,)),\n'),
    # members that are a function, or a class among its like: their file is there, and has their line too
    ("metrics/measures.py", "MEASURES: dict", _MEASURE),
    (
        "metrics/measures.py",
        '    "roc": Measure',
        '    "made": Measure(made, "optional", "a made-up measure"),\n',
    ),
    ("export/search_engines.py", "FORMATS: dict", "def _made(form, target):\n    return b'made'\n\n\n"),
    ("export/search_engines.py", '    "svmlight": _svm', '    "made": _made,\n'),
    ("estimators/baselines.py", "class OriginalOrder(", _CHOICE),
    ("estimators/baselines.py", '"OriginalOrder",', '"MadeChoice", '),
]

LOOK = """
import json, sys
from functools import partial
import numpy as np
sys.path.insert(0, sys.argv[1])
found = {}

import structsvm
from structsvm import export, metrics, oracles
from structsvm.estimators import baselines
from structsvm.online import bandits, interleaving, simulate, users
from structsvm.online.clicklog import write_log
from structsvm.online.statistics import read_credits, simulate_log
from structsvm.oracles import get_oracle
from structsvm.readers import make_ranking
from structsvm.cli.studies.diversity import check_names
from structsvm.cli.studies.folds.methods import check_method
from structsvm.testing import check_bandit, check_click_model, check_interleaver, check_oracle

found["exports"] = [
    name for room, name in [
        (oracles, "MadeLoss"), (bandits, "MadeBandit"), (interleaving, "MadeInterleaver"), (users, "MadeUser"),
        (structsvm, "MadeRanker"), (baselines, "MadeChoice"),
    ] if name in room.__all__ and name in dir(room) and getattr(room, name).__name__ == name
]

found["losses"] = [repr(get_oracle("made@3", relevance=2)), *(name for name in oracles.LOSSES if "made" in name)]
check_oracle(get_oracle("made"))
check_method("svm-made@5")
rows = make_ranking(20, 5, 3, random_state=0)
model = structsvm.MadeRanker(get_oracle("made@2")).fit(rows.X, rows.y, qid=rows.qid)
model.save(sys.argv[2])
again = structsvm.load(sys.argv[2])
found["saved"] = [type(again).__name__, repr(again.loss), bool(np.array_equal(again.coef_, model.coef_))]

import warnings
from structsvm.qp.convex import Convex
from structsvm.trainers import ConvergenceWarning, Options, RankingProblem, train
from structsvm.trainers.choosing_solver import TRAINERS
warnings.simplefilter("ignore", ConvergenceWarning)

# every option that some trainer may lack, as train and as the estimators say it
asked = [
    {"cone": np.ones(3)}, {"cone": np.eye(3)}, {"region": Convex(3, lambda w: [w >= 0])}, {"stabilise": False},
    {"qp": "cvxpy"},
]
assert {name for one in asked for name in Options(**one).needs} == {
    "signs", "cone", "region", "stabilise", "qp"
}
def fate(train, *args, **options):
    try:
        train(*args, **options)
    except ValueError as error:
        return "refused" if "expected a trainer that supports" in str(error) else str(error)
    return "trained"
def problem(loss):
    separator = get_oracle(loss).bind(rows.y, rows.offsets)
    return RankingProblem(rows.X, rows.offsets, separator)
estimators = [
    lambda solver: structsvm.StructuralRanker(solver=solver),
    lambda solver: structsvm.StructuralRanker(solver=solver, positive=True),
    lambda solver: structsvm.StructuralRanker(solver=solver, monotone_constraints=[1, 0, 0]),
    lambda solver: structsvm.StructuralRanker(solver=solver, constraints=lambda w: [w[0] >= 0]),
    lambda solver: structsvm.StructuralRanker(solver=solver, stabilise=False),
    lambda solver: structsvm.PairwiseSVM(solver=solver),
    lambda solver: structsvm.SVMDiv(solver=solver, positive="benefits"),
]
found["trainers"] = {
    name: [
        fate(train, problem("map"), 1.0, solver=name),
        {fate(train, problem("map"), 1.0, solver=name, **one) for one in asked} == {"refused" if plain else "trained"},
        [fate(make(name).fit if i < 6 else lambda *a, qid: make(name).check_options(), rows.X, rows.y, qid=rows.qid)
         for i, make in enumerate(estimators)],
    ]
    for name, plain in (("made_plain", True), ("made_able", False))
}

P = [[0.5, 0.8], [0.2, 0.5]]
played = [simulate(form, P, horizon=200, seed=1) for form in ("made", partial(bandits.make, "made"))]
found["compiled"] = [bool(played[0].compiled), bool(np.array_equal(played[0].regret, played[1].regret))]
found["restored"] = type(bandits.from_json(bandits.make("made", 3).to_json())).__name__
check_bandit(bandits.MadeBandit, steps=1000)

check_interleaver(interleaving.MadeInterleaver(), multileaves=False, prefix=False, fair=None)
user = users.MadeUser([0.1, 0.5, 0.9, 0.9, 0.9], examination=[1.0] * 10)
check_click_model(user)
scores = np.asarray(rows.X)[:, :2]
log = list(simulate_log(rows, scores, interleaving.MadeInterleaver(), user, 20, rng=0))
write_log(sys.argv[2] + ".jsonl", log)
found["log"] = read_credits(sys.argv[2] + ".jsonl").method

from typer.testing import CliRunner
from structsvm.clicks import judgments, read_clicks
from structsvm.cli import app as commands
cells = read_clicks(sys.argv[1], "made", session=[5, 5])
found["judged"] = judgments(cells, "made").grades().tolist()
described = CliRunner().invoke(commands, ["clicks", "describe", sys.argv[2], "--format", "made", "--json"])
found["described"] = json.loads(described.output)["documents"]

found["measure"] = ["made" in metrics.available_metrics(), metrics.evaluate("made@2", [1, 0], [2, 1], qid=0).mean]
found["export"] = export.export_model(model, "made").decode()
check_names([], ["made"])

from structsvm.cli.options import fill_lists
import typer
from structsvm.cli import app
def help_of(*path):
    command = typer.main.get_command(app)
    fill_lists(command, path)
    for name in path:
        command = command.commands[name]
    texts = [f"{p.help} {p.show_default}" for p in command.params if hasattr(p, "help")]
    return " ".join(texts).replace(",", " ").split()
paths = ["made", "train", "fuse", "evaluate", "export", "bandit simulate", "interleave simulate", "diversify compare"]
found["solvers"] = {"made_plain", "made_able"} <= set(help_of("train"))
found["help"] = [path for path in paths if {"made", "made@k"} & set(help_of(*path.split()))]
simulate = typer.main.get_command(app).commands["bandit"].commands["simulate"]
fill_lists(simulate, ())
shown = next(p.help for p in simulate.params if p.name == "algorithms").partition("(default: ")[2]
found["default"] = "made" in shown.strip(")").split(",")

import reference
listed = {name.rsplit(".", 1)[1] for names in reference.sections().values() for name in names}
found["documented"] = sorted(name for name in listed if name.startswith("Made"))
found["tables"] = [title for title, (_, rows) in reference.tables().items() if any("made" in row[0] for row in rows)]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Return the results of a script on the added members in a copy of the package, which is not compiled."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "structsvm", folder / "structsvm", ignore=shutil.ignore_patterns("__pycache__"))
    package = folder / "structsvm"
    for path, text in FILES.items():
        assert not (package / path).exists()
        (package / path).write_text(text)
    for path, before, line in LINES:
        text = (package / path).read_text()
        assert before in text, (path, before)
        (package / path).write_text(text.replace(before, line + before, 1))
    (folder / "look.py").write_text(LOOK)
    run = subprocess.run(
        [sys.executable, "look.py", str(ROOT / "docs"), str(folder / "model.npz")],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder), "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


EXPECTED = {
    "exports": ["MadeLoss", "MadeBandit", "MadeInterleaver", "MadeUser", "MadeRanker", "MadeChoice"],
    # a loss is found by name and saved with its model
    "losses": ["MadeLoss(k=3, relevance=2.0)", "made", "made@k"],
    "saved": ["MadeRanker", "MadeLoss(k=2, relevance=1.0)", True],
    # a trainer is told, or refused, what it is asked for, whoever asks
    "trainers": {
        "made_plain": ["trained", True, ["trained", *["refused"] * 4, "trained", "refused"]],
        "made_able": ["trained", True, ["trained"] * 7],
    },
    # a bandit is played in its compiled form and restored
    "compiled": [True, True],
    "restored": "MadeBandit",
    # logs, click models and judgments
    "log": "made",
    "judged": [0, 1],
    "described": 2,
    "measure": [True, 1.0],
    "export": "made",
    # the help of the command line
    "help": [
        "made",
        "train",
        "fuse",
        "evaluate",
        "export",
        "bandit simulate",
        "interleave simulate",
        "diversify compare",
    ],
    "solvers": True,
    "default": True,
    # the reference
    "documented": [
        "MadeBandit",
        "MadeChoice",
        "MadeClickModel",
        "MadeInterleaver",
        "MadeLoss",
        "MadeRanker",
        "MadeUser",
    ],
    "tables": [
        "Losses",
        "Trainers",
        "Measures",
        "Bandits",
        "Interleavers",
        "Fixed ways of choosing documents",
        "Formats of search engines",
    ],
}


@pytest.mark.parametrize("what", EXPECTED)
def test_made_up_members_are_found(found, what):
    assert found[what] == EXPECTED[what]
