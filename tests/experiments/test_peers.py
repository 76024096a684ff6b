"""The table of the page of comparisons is that of its benchmark."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.filterwarnings("ignore")
def test_measures_on_mq2008_are_those_of_the_manual(load, shared_data, monkeypatch, capsys):
    pytest.importorskip("lightgbm")
    monkeypatch.setattr("sys.argv", ["peers_mq2008.py", str(shared_data("letor4_mq2008"))])
    load("benchmarks/peers_mq2008").main()
    docs = Path(__file__).parents[2] / "docs"
    shown = re.findall(
        r"^\| (SVM for [\w@]+|LightGBM).*? \| (0\.\d+) \| (0\.\d+) \|",
        (docs / "comparison.md").read_text(),
        re.M,
    )
    found = re.findall(r"^(SVM for [\w@]+|LightGBM) +(0\.\d+) +(0\.\d+)", capsys.readouterr().out, re.M)
    assert [row[0] for row in shown] == [row[0] for row in found]
    assert shown[:2] == found[:2]
    # trees of LightGBM depend on the processor
    assert [float(x) for x in shown[2][1:]] == pytest.approx([float(x) for x in found[2][1:]], abs=0.002)
