"""``structsvm datasets``: the commands list, make and describe."""

import pandas as pd
import pytest

from tests.cli.test_commands import standard_input


def test_list_make_and_describe(cli):
    names = [dataset["name"] for dataset in cli.json("datasets list")]
    text = cli("datasets list")
    assert "ranking" in names
    assert all(name in text for name in names)
    cli("datasets make ranking made.txt -O n_queries=7 -O n_docs=4")
    found = cli.json("datasets describe made.txt")
    assert found["kind"] == "letor"
    assert (found["counts"]["queries"], found["counts"]["rows"]) == (7, 28)
    assert "queries: 7" in cli("datasets describe made.txt")


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_describe_takes_tables(name, cli):
    frame = pd.DataFrame({"query": ["a", "a", "b"], "grade": [2, 0, 0], "bm25": [1.0, 2.0, 3.0]})
    frame.to_csv(name, index=False) if name == "t.csv" else frame.to_parquet(name)
    found = cli.json("datasets describe --label grade --qid query", name)
    assert found["kind"] == "table"
    assert found["counts"] == {
        "queries": 2,
        "rows": 3,
        "features": 1,
        "shortest query": 1,
        "longest query": 2,
    }
    assert found["labels"] == {"0": 2, "2": 1}
    assert cli.json("datasets describe", name) == found


def test_a_table_on_the_standard_input_is_refused_with_the_remedy(cli, tmp_path):
    with standard_input(b"label,qid,a\n1,q,0.5\n"):
        error = cli.refuses("train - --output m.npz")
    assert error.endswith("a table has to be a file whose name ends in .csv, .tsv or .parquet")
    assert not list(tmp_path.iterdir())
