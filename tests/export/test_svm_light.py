"""Models of SVM-light and SVM-rank are read as ``svm_rank_classify`` reads them."""

import numpy as np
import pytest

import structsvm
from structsvm import PairwiseSVM, SVMMap
from structsvm.cli import main
from structsvm.export import write_export
from structsvm.readers import make_ranking
from tests.refusing import refused

DATA = make_ranking(20, 10, 5, grades=2, random_state=0)

# as svm_rank_learn writes a model: a single vector, without features of weight 0
RANK = """SVM-light Version V6.20
0 # kernel type
3 # kernel parameter -d
1 # kernel parameter -g
1 # kernel parameter -s
1 # kernel parameter -r
empty# kernel parameter -u
4 # highest feature index
12 # number of training documents
{n} # number of support vectors plus 1
{b} # threshold b, each following line is a SV (starting with alpha*y)
"""


@pytest.mark.parametrize("model", [SVMMap(C=1.0), PairwiseSVM(scale="zscore")], ids=["map", "zscore"])
def test_an_export_is_read_back(model, tmp_path):
    model.fit(DATA.X, DATA.y, qid=DATA.qid)
    write_export(tmp_path / "model.dat", model, "svmlight")
    again = structsvm.load(tmp_path / "model.dat")
    assert np.allclose(again.predict(DATA.X), model.predict(DATA.X), rtol=1e-12, atol=1e-12)
    assert np.array_equal(again.rank(DATA.X, DATA.qid), model.rank(DATA.X, DATA.qid))


def test_support_vectors_are_added_up(tmp_path):
    path = tmp_path / "svm.dat"
    path.write_text(RANK.format(n=3, b=0.25) + "2 1:1.5 4:-1 #\n-0.5 1:1 3:2 # the second\n\n")
    rows = np.arange(8.0).reshape(2, 4)
    assert structsvm.load(path).predict(rows) == pytest.approx(rows @ [2.5, 0, -1, -2] - 0.25)


def test_predict_reads_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "svm.dat").write_text(RANK.format(n=2, b=0) + "1 1:0.5 4:2 #\n")
    (tmp_path / "test.dat").write_text("1 qid:1 1:2 4:1 # d1\n0 qid:1 2:7\n")
    assert main(["predict", "svm.dat", "test.dat", "-o", "scores.txt"]) == 0
    assert (tmp_path / "scores.txt").read_text() == "3.0\n0.0\n"
    assert main(["show", "svm.dat"]) == 0


def test_no_negative_zero_is_written(tmp_path):
    write_export(tmp_path / "model.dat", SVMMap(C=1.0).fit(DATA.X, DATA.y, qid=DATA.qid), "svmlight")
    assert "\n0.0 # threshold b" in (tmp_path / "model.dat").read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda text: text.replace("0 # kernel", "2 # kernel"),
            "expected a model with a linear kernel, got kernel 2",
        ),
        (
            lambda text: text[: text.index("4 # highest")],
            "svm.dat:8: expected a model of SVM-light, got its end",
        ),
        (
            lambda text: text.replace("4:2", "4;2"),
            "svm.dat:12: expected a model of SVM-light, got '1 1:0.5 4;2 #'",
        ),
        (lambda text: text.replace("4:2", "5:2"), "svm.dat:12: expected a model of SVM-light"),
        (lambda text: text.replace("4:2", "4:nan"), "svm.dat:12: expected a model of SVM-light"),
        (
            lambda text: text.replace("4 # high", f"{10**12} # high"),
            r"highest feature index < 2\^31 .* got 10{12}",
        ),
        (lambda text: text.replace("0 # thr", "nan # thr"), "a finite threshold, got 4 and nan"),
        (lambda text: text.replace("4:2", "0:2"), "svm.dat:12: expected a model of SVM-light"),
        (lambda text: text.replace("4:2", "-1:2"), "svm.dat:12: expected a model of SVM-light"),
        (lambda text: text[: text.index("1 1:0.5")], "expected 1 support vectors, got 0"),
    ],
)
def test_damaged_models_are_refused(change, message, tmp_path):
    (tmp_path / "svm.dat").write_text(change(RANK.format(n=2, b=0) + "1 1:0.5 4:2 #\n"))
    refused(message, structsvm.load, tmp_path / "svm.dat")
