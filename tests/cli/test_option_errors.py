"""What is wrong with the value of an option is said of the option, not of the argument that it sets in Python."""

import re
import shlex

import pytest

from structsvm.cli import COMMANDS, GROUPS
from structsvm.readers import write_letor
from structsvm.readers.synthetic import make_ranking

CASES = {
    "train DATA -o OUT": "--loss=mpa --loss=precision --loss=map@5 --C=0 --C=-1 --C=nan --C=inf --tol=0 --tol=1 "
    "--tol=nan --solver=sgd --scale=log --features=a, --features=a,a --features=a --label=grade --relevance=0 "
    "--relevance=nan --max-passes=0 --fill=nan --fill=inf --jobs=0",
    "evaluate DATA SCORES": "--metric=mpa --metric=ndcg@0 --metric=err@x --convention=no --relevance=0 --relevance=nan",
    "compare DATA": "--method=svm --method=svm-mpa --C=0:1:2 --C=x --select=maps --metric=maps --baseline=acc "
    "--convention=no --relevance=0 --scale=log --folds=1 --folds=99 --jobs=0",
    "search DATA": "--method=svm --select=maps --convention=no --relevance=-1 --folds=1 --jobs=0",
    "convert DATA OUT": "--dtype=int --matrix=thin --n-features=0 --n-features=-3 --fill=inf --jobs=0",
    "fuse RUN -o OUT --qrels QRELS": "--loss=mop --relevance=0 --relevance=nan '--tag=two words' --jobs=0",
    "demo -o OUT": "--jobs=0",
    "diversify train SETS -o OUT": "--k=0 --C=0 --C=nan --level=big --loss=hinge --prediction=best --tol=0 --tol=2 "
    "--jobs=0",
    "diversify compare SETS": "--method=magic --k=0",
    "interleave analyse LOG": "--test=f --alpha=0 --alpha=2 --power=1 '--correction=none of them' --cluster=page "
    "--missing-feedback=guess",
    "interleave learn LOG -o OUT --better old": "--method=t --ridge=-1",
    "interleave simulate -o OUT": "--interleaver=best --clicks=drunk --impressions=0 --length=0 --users=0",
    "bandit simulate --world WORLD": "--algorithms=ucb --algorithms=rucb:alpha=-1 --horizon=0 --horizon=1.5 --runs=0 "
    "--regret=least --jobs=0",
    "bandit simulate --world DATA": "--gap=map --clicks=drunk --interleaving=balanced --samples=0 --fill=nan",
}
"""Commands, and options whose values they refuse."""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    room = tmp_path_factory.mktemp("files")
    data = make_ranking(8, 6, 3, grades=3, random_state=0)
    write_letor(data, room / "data.txt")
    texts = {
        "SCORES": "0.5\n" * data.n_rows,
        "RUN": "1 Q0 a 1 2.0 x\n1 Q0 b 2 1.0 x\n",
        "QRELS": "1 0 a 1\n1 0 b 0\n",
        "SETS": '{"query": "q", "documents": [{"text": "a b", "subtopics": ["s"]}, {"text": "c", "subtopics": []}, '
        '{"text": "d", "subtopics": ["t"]}]}\n' * 3,
        "LOG": "",
        "WORLD": "0.5 0.6\n0.4 0.5\n",
    }
    for name, text in texts.items():
        (room / name).write_text(text)
    from structsvm.online.clicklog import Click, Impression, write_log
    from structsvm.online.interleaving import TeamDraft

    shown = [TeamDraft().show([["a", "b"], ["b", "a"]], rng=i) for i in range(6)]
    write_log(room / "LOG", (Impression(one, (Click(1),), rankers=("old", "new")) for one in shown))
    return {**{name: room / name for name in texts}, "DATA": room / "data.txt"}


@pytest.mark.parametrize(
    ("command", "option"), [(command, option) for command, given in CASES.items() for option in shlex.split(given)]
)  # fmt: skip
def test_the_option_is_named(command, option, files, cli, tmp_path):
    for name, path in {**files, "OUT": "out"}.items():
        command = re.sub(rf"\b{name}\b", str(path), command)
    error = cli.refuses(command, f"'{option}'")
    assert error.startswith(f"structsvm: error: {option.partition('=')[0]}")
    assert all(remark.startswith("structsvm: estimating ") for remark in cli.err.splitlines()[:-1])
    assert not list(tmp_path.iterdir())


def test_every_command_with_checked_options_is_here():
    here = {command.split()[0] for command in CASES}
    with_their_own = {
        "arena",
        "clicks",
        "predict",
        "export",
        "show",
        "explain",
        "datasets",
        "live",
        "warm-up",
    }
    assert {*COMMANDS, *GROUPS} - here == with_their_own


@pytest.mark.filterwarnings("always::UserWarning")
def test_warnings_and_errors_of_methods_name_options(cli, tmp_path):
    """Where Python says ``loss='ndcg@10'`` and ``relevance=``; of a comparison the loss is a method."""
    rows = [f"{1 + d % 3} qid:{q} 1:{d} 2:{q}\n" for q in range(12) for d in range(6)]
    path = tmp_path / "rows.txt"
    path.write_text("".join([*rows, "0 qid:99 1:0 2:1\n", "1 qid:99 1:1 2:1\n"]))
    cli(f"train {path} -o m.npz")
    assert "relevant by --relevance 1, and the loss 'map'" in cli.err
    assert "pass --loss ndcg@10, which uses all grades, or a higher --relevance" in cli.err
    error = cli.refuses(f"compare {path} --method map --C 1 --folds 3 --jobs 1")
    assert "pass --method ndcg@10, which uses all grades, or a higher --relevance" in error
