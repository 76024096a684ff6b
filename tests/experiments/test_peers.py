"""Tables of the manual that compare with LightGBM are those of their benchmarks."""

import re
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.filterwarnings("ignore")
def test_measures_on_mq2008_are_those_of_the_manual(load, shared_data, monkeypatch, capsys):
    pytest.importorskip("lightgbm")
    monkeypatch.setattr("sys.argv", ["peers_mq2008.py", str(shared_data("letor4_mq2008"))])
    load("benchmarks/peers_mq2008").main()
    shown = re.findall(
        r"^\| (SVM for [\w@]+|LightGBM).*? \| (0\.\d+) \| (0\.\d+) \|",
        (DOCS / "comparison.md").read_text(),
        re.M,
    )
    found = re.findall(r"^(SVM for [\w@]+|LightGBM) +(0\.\d+) +(0\.\d+)", capsys.readouterr().out, re.M)
    assert [row[0] for row in shown] == [row[0] for row in found]
    assert shown[:2] == found[:2]
    # trees of LightGBM depend on the processor
    assert [float(x) for x in shown[2][1:]] == pytest.approx([float(x) for x in found[2][1:]], abs=0.002)


@pytest.mark.filterwarnings("ignore")
def test_monotone_trees_are_those_of_the_manual(load, capsys):
    pytest.importorskip("lightgbm")
    load("benchmarks/monotone_trees").main()
    names = r"(LightGBM|new weights|without signs)"
    page = (DOCS / "guide/constraints.md").read_text()
    shown = dict(re.findall(rf"^\| {names} \| (0\..*) \|$", page, re.M))
    found = dict(re.findall(rf"^{names} +(0\..*)$", capsys.readouterr().out, re.M))
    assert list(shown) == list(found)
    for name, cells in shown.items():
        values, expected = (
            np.array(cells.split(" | "), dtype=float),
            np.array(found[name].split(), dtype=float),
        )
        # trees of LightGBM depend on the processor
        np.testing.assert_allclose(values[:-1], expected[:-1], rtol=0, atol=0.005)
        assert (values[-1] == 0) == (expected[-1] == 0) == (name != "without signs")
