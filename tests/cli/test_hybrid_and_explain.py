"""``fuse --weights-for``, ``export --check``, ``show`` and ``explain``, as a user calls them."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from structsvm import SVMMap, TreeRanker
from structsvm.readers import Qrels, Run, write_qrels, write_run

pytestmark = [pytest.mark.filterwarnings("ignore::structsvm.trainers.NothingLearnedWarning")]


@pytest.fixture
def scores():
    """Write a table of two score columns with missing scores, and the same as runs and judgments."""
    rng = np.random.default_rng(0)
    n, size = 12, 12
    frame = pd.DataFrame(
        {
            "qid": np.repeat([f"q{i}" for i in range(n)], size),
            "docid": [f"d{i}" for i in range(size)] * n,
            "label": rng.integers(0, 3, n * size),
        }
    )
    frame["bm25"] = 5 + 3 * frame.label + rng.gamma(2, 1, len(frame))
    frame["dense"] = rng.random(len(frame))
    for column in ("bm25", "dense"):
        frame.loc[rng.random(len(frame)) < 0.2, column] = np.nan
    frame = frame[frame[["bm25", "dense"]].notna().any(axis=1)]
    frame.to_csv("scores.csv", index=False)
    for column in ("bm25", "dense"):
        part = frame.dropna(subset=column)
        run = Run.from_arrays(part.qid.to_list(), part.docid.to_list(), part[column].to_list(), tag=column)
        write_run(run, Path(f"{column}.run"))
    write_qrels(
        Qrels.from_arrays(frame.qid.to_list(), frame.docid.to_list(), frame.label.to_list()), Path("qrels")
    )


def test_weights_of_a_table_and_of_runs(cli, scores):
    text = cli("fuse scores.csv --weights-for opensearch-hybrid")
    processor = json.loads(text)["phase_results_processors"][0]["normalization-processor"]
    assert sum(processor["combination"]["parameters"]["weights"]) == pytest.approx(1)
    assert "scores.csv: columns read as scores of searches: bm25, dense; choose" in cli.err
    table = json.loads(cli("fuse scores.csv --weights-for opensearch-hybrid --json --features bm25,dense"))
    named = pd.read_csv("scores.csv").rename(columns={"qid": "query", "docid": "doc_id", "label": "grade"})
    named.to_csv("named.csv", index=False)
    columns = "--qid query --docid doc_id --label grade"
    assert cli("fuse named.csv --weights-for opensearch-hybrid", columns) == text
    runs = "fuse bm25.run dense.run --qrels qrels --weights-for opensearch-hybrid"
    other = json.loads(cli(f"{runs} --json -o pipeline.json"))
    assert [one["name"] for one in other["weights"]] == ["bm25", "dense"]
    assert [one["weight"] for one in other["weights"]] == pytest.approx(
        [one["weight"] for one in table["weights"]], rel=0.2
    )
    assert json.loads(Path("pipeline.json").read_text())["description"] == "clauses: bm25, dense"
    assert other["estimate"]["lower"] < other["estimate"]["mean"] < other["estimate"]["upper"]
    assert other["against"].keys() == {"equal weights", "RRF", "best single list"}
    assert cli.code(runs) == 0
    assert "ndcg@10 on new queries" in cli.err
    assert "against equal weights, 0." in cli.err
    assert "against RRF, 0." in cli.err


@pytest.fixture
def shop():
    """Write a linear model and a tree model, trained on a table with a column that may be empty."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=["bm25", "title", "price"])
    y = (X.bm25 - X.price > 0.5).astype(int)
    qid = np.repeat([f"q{i}" for i in range(20)], 10)
    frame = X.assign(label=y, qid=qid, docid=[f"d{i}" for i in range(200)])
    SVMMap(C=1.0, scale="zscore").fit(X, y, qid=qid).save("linear.npz")
    SVMMap(C=1.0, scale="query-percentile").fit(X, y, qid=qid).save("within.npz")
    frame.to_csv("rows.csv", index=False)
    X.loc[::7, "price"] = np.nan
    frame.assign(price=X.price).to_csv("gaps.csv", index=False)
    TreeRanker(n_trees=5, n_leaves=4, random_state=0).fit(X, y, qid=qid).save("trees.npz")
    return frame


@pytest.mark.filterwarnings("ignore::UserWarning")  # versions for which the file is wrong
@pytest.mark.parametrize("to", ["opensearch", "solr", "elastic", "xgboost"])
def test_an_export_is_checked(cli, shop, to):
    cli(f"export trees.npz --to {to} -o model.json --check gaps.csv")
    assert "gaps.csv: largest difference" in cli.err
    assert "of the range, 0 of" in cli.err
    shop[["price", "title", "bm25"]].to_csv("bare.csv", index=False)
    # scores need neither labels nor queries
    cli(f"export trees.npz --to {to} -o model.json --check bare.csv")
    assert "bare.csv: largest difference" in cli.err
    options = "--unmatched price=zero,title=zero -o model.json --check rows.csv"
    cli(f"export trees.npz --to {to} {options}")
    if to in ("opensearch", "solr"):
        older = {"opensearch": "3.1", "solr": "9.1"}[to]
        said = cli.refuses(f"export trees.npz --to {to} --engine-version {older} --check gaps.csv")
        assert "pairs reversed, due to price" in said


def test_queries_of_features_are_a_file(cli, shop):
    Path("queries.json").write_text(
        json.dumps({name: {"match_all": {}} for name in ("bm25", "title", "price")})
    )
    body = json.loads(cli("export trees.npz --to elastic --feature-queries queries.json"))
    assert len(body["inference_config"]["learning_to_rank"]["feature_extractors"]) == 3
    for text, message in (
        ("{", "queries.json: expected JSON"),
        ("[]", "queries.json: expected queries keyed by feature name"),
    ):
        Path("queries.json").write_text(text)
        assert message in cli.refuses("export trees.npz --to elastic --feature-queries queries.json")


def test_show(cli, shop):
    table = json.loads(cli("show linear.npz --json --rows rows.csv"))["features"]
    assert [one["feature"] for one in table][2] == "title"
    assert set(table[0]) == {"feature", "scaled", "raw", "low", "high", "importance"}
    card, table = cli("show trees.npz").split("\n\n")
    assert re.search(r"^data +20 queries, 200 rows, labels 0 to 1, digest [0-9a-f]{16}$", card, re.M)
    assert table.split("\n")[0].split() == ["feature", "splits", "range", "alone", "low", "high"]


@pytest.mark.filterwarnings("ignore::UserWarning")  # versions for which the file is wrong
@pytest.mark.parametrize("model", ["linear", "trees"])
def test_pandas_is_not_needed(cli, shop, monkeypatch, model):
    monkeypatch.setitem(sys.modules, "pandas", None)
    cli(f"show {model}.npz --rows rows.csv")
    cli(f"explain {model}.npz rows.csv --query q3 --a 1 --b 10")
    cli(f"export {model}.npz --to opensearch -o model.json --check rows.csv")


@pytest.mark.parametrize("model", ["linear", "trees", "within"])
def test_explain(cli, shop, model):
    record = json.loads(cli(f"explain {model}.npz rows.csv --query q3 --a 1 --b 10 --json"))
    assert sum(one["adds"] for one in record["terms"]) == pytest.approx(record["a"] - record["b"])
    cli("convert gaps.csv gaps --fill nan")
    for data in ("gaps.csv", "gaps"):
        assert re.search(
            r"^price .* 7 \(filled\)  [-.\d]+$",
            cli(f"explain {model}.npz {data} --query q3 --a d35 --b d36 --fill 7"),
            re.M,
        )
    assert "--a ²: expected a document such as d30, or a rank from 1 to 10 in query q3" in cli.refuses(
        f"explain {model}.npz rows.csv --query q3 --a ² --b 1"
    )
    assert "--query x: expected a query" in cli.refuses(f"explain {model}.npz rows.csv --query x --a 1 --b 2")
