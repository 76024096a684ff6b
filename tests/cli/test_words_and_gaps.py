"""Columns of words, missing cells and trees on the command line, from training to prediction."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import structsvm
from structsvm.common.checks import BadInput
from structsvm.readers import convert_csv, convert_letor, convert_parquet, describe, open_store, read_queries
from structsvm.readers.store import check_store
from tests.refusing import refused, rejected

BRANDS = ("acme", "b=c", "Zeta, Ltd")


def write(frame, path):
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)


@pytest.fixture(scope="module")
def products(tmp_path_factory):
    """Write 200 products of 20 queries; labels depend on the brand and the price, which is missing in a tenth."""
    folder, rng = tmp_path_factory.mktemp("products"), np.random.default_rng(0)
    rows = []
    for k in rng.permutation(200).tolist():
        brand, price = rng.integers(3), round(float(rng.uniform(1, 9)), 2)
        label = int(brand == 1) + int(price < 5)
        missing = rng.random() < 0.1
        rows.append([f"q{k % 20}", BRANDS[brand], None if missing else price, int(rng.integers(9)), label])
    # other products, without labels; one brand is new, one missing
    fresh = [[1, "acme", "q1", 2.0], [1, "b=c", "q1", 2.0], [3, "new", "q1", None], [3, None, "q1", 4.0]]
    for kind in ("csv", "parquet"):
        write(
            pd.DataFrame(rows, columns=["query", "brand", "price", "stock", "label"]),
            folder / f"train.{kind}",
        )
        write(pd.DataFrame(fresh, columns=["stock", "brand", "query", "price"]), folder / f"new.{kind}")
    return folder


LEARNED = "--categorical brand --fill median"


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_words_and_medians_are_kept_with_the_model(products, cli, kind):
    assert "5 features" in cli(f"train {products}/train.{kind} --qid query -o m.npz --C 10", LEARNED)
    model = structsvm.load("m.npz")
    names = ["price", "stock", "brand=Zeta, Ltd", "brand=acme", "brand=b=c"]
    assert list(model.feature_names_in_) == names
    median = pd.read_csv(products / "train.csv").price.median()
    assert model.table_["fill"][0] == median
    assert model.coef_[4] > model.coef_[3]
    predict = f"predict m.npz {products}/new.{kind} --qid query -o s"
    cli(predict)
    assert "1 row with a 'brand' that did not occur in training, such as 'new'" in cli.err
    X = np.array([[2, 1, 0, 1, 0], [2, 1, 0, 0, 1], [median, 3, 0, 0, 0], [4, 3, 0, 0, 0]])
    np.testing.assert_allclose(np.loadtxt("s"), X @ model.coef_, rtol=1e-12)
    # only what was missing is named for the engine, none of the words
    cli("export m.npz --to json")
    assert f"send them: price={median:g}\n" in cli.err
    # a number in place of the medians
    cli(predict, "--fill 7")
    X[2, 0] = 7
    np.testing.assert_allclose(np.loadtxt("s"), X @ model.coef_, rtol=1e-12)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_models_pass_between_python_and_the_command_line(products, cli, kind):
    """Models with named columns work in both directions: categories of a frame, and columns encoded from words."""
    pytest.importorskip("lightgbm", reason="pip install lightgbm")
    train, new = pd.read_csv(products / "train.csv"), pd.read_csv(products / "new.csv")
    features = ["brand", "price", "stock"]
    words = train[features].assign(brand=train.brand.astype("category"))
    tree = structsvm.TreeRanker(n_trees=5, n_leaves=4, random_state=0)
    tree.fit(words, train.label, qid=train["query"]).save("tree.npz")
    options = "--qid query --features price,stock,brand"
    cli(f"predict tree.npz {products}/new.{kind} -o s", options)
    assert "1 row with a 'brand' that did not occur in training, such as 'new'; it counts as" in cli.err
    with pytest.warns(UserWarning, match="1 categories that did not occur in training"):
        expected = tree.predict(new[features].assign(brand=new.brand.astype("category")))
    np.testing.assert_array_equal(np.loadtxt("s"), expected)

    cli(f"train {products}/train.{kind} -o m.npz", options, LEARNED)
    cli(f"predict m.npz {products}/new.{kind} -o s", options)
    model = structsvm.load("m.npz")
    with pytest.raises(
        BadInput, match=r"text in the column.* 'brand'.*; encode them like the features"
    ) as said:
        model.predict(new)
    X = eval(said.value.code, {"pd": pd, "X": new, "model": model})
    X = X.fillna(dict(zip(model.feature_names_in_, model.table_["fill"], strict=True)))
    np.testing.assert_array_equal(np.loadtxt("s"), model.predict(X))


def test_medians_of_a_text(cli):
    rows = ["2 qid:1 1:nan 2:1", "1 qid:1 1:4 2:nan", "0 qid:1 1:2 2:3", "1 qid:2 1:8", "0 qid:2 2:nan"]
    Path("a.txt").write_text("\n".join(rows) + "\n")
    cli("train a.txt -o m.npz --fill median")
    model = structsvm.load("m.npz")
    np.testing.assert_array_equal(model.table_["fill"], [3.0, 1.0])
    cli("predict m.npz a.txt -o s")
    assert cli("export m.npz --to json").startswith("{")
    said = "medians replaced missing features in training, and no format stores them; send them: 1=3, 2=1\n"
    assert said in cli.err
    X = np.array([[3, 1], [4, 1], [2, 3], [8, 0], [0, 1]])
    np.testing.assert_allclose(np.loadtxt("s"), X @ model.coef_, rtol=1e-12)


def test_trees_take_words_and_gaps(products, cli):
    pytest.importorskip("lightgbm", reason="pip install lightgbm")
    assert "5 features" in cli(
        f"train {products}/train.csv --qid query -o m.npz",
        "--loss ndcg@10 --trees --n-trees 10 --n-leaves 4 --categorical brand",
    )
    model = structsvm.load("m.npz")
    assert type(model).__name__ == "TreeRanker"
    assert (model.loss, model.n_trees, model.n_leaves) == ("ndcg@10", 10, 4)
    cli(f"predict m.npz {products}/new.csv --qid query -o s")
    X = np.array([[2, 1, 0, 1, 0], [2, 1, 0, 0, 1], [np.nan, 3, 0, 0, 0], [4, 3, 0, 0, 0]])
    model.__dict__.pop("feature_names_in_")
    scores = np.loadtxt("s")
    np.testing.assert_array_equal(scores, model.predict(X))
    assert scores[1] > scores[0]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_compare_and_search_learn_words_and_medians_in_training(products, cli, kind):
    """The figures equal those of features made by hand: words and medians of the training part, used in all parts."""
    table = pd.read_csv(products / "train.csv")
    # the brand "b=c" is not in training, and so in no feature
    number = table["query"].str[1:].astype(int)
    parts = {
        "train": table[(number < 10) & (table.brand != "b=c")],
        "vali": table[(number >= 10) & (number < 15)],
        "test": table[number >= 15],
    }
    for folder in ("words", "made"):
        Path(folder).mkdir()
        for name, rows in parts.items():
            frame = rows.drop(columns="brand")
            if folder == "made":
                for brand in ("Zeta, Ltd", "acme"):
                    frame[f"brand={brand}"] = (rows.brand == brand).astype(float)
                frame["price"] = frame.price.fillna(parts["train"].price.median())
            else:
                frame.insert(1, "brand", rows.brand)
            write(frame if name == "train" else frame[frame.columns[::-1]], Path(folder, f"{name}.{kind}"))
    options = "--qid query --C 0.1,10 --method map,ndcg@3 --scale zscore"
    found, scores = {}, {}
    for folder, further in (("words", LEARNED), ("made", "")):
        record = cli.json(f"compare {folder} {options} {further}")
        search = f"search {folder}/train.{kind} --validation {folder}/vali.{kind} -o {folder}.npz"
        found[folder] = {**record, "seconds": None, "search": cli.json(f"{search} {options} {further}")}
        del found[folder]["folds"]
        # prediction finds both in the model
        cli(f"predict {folder}.npz {folder}/test.{kind} --qid query -o s")
        scores[folder] = np.loadtxt("s")
    assert found["words"] == found["made"]
    np.testing.assert_array_equal(scores["words"], scores["made"])
    model, made = (structsvm.load(f"{folder}.npz") for folder in ("words", "made"))
    assert model.coef_.tolist() == made.coef_.tolist()
    assert list(model.feature_names_in_) == ["price", "stock", "brand=Zeta, Ltd", "brand=acme"]
    # one file that is cut into folds, whose cells are found again
    for _ in range(2):
        cli(f"compare {products}/train.{kind} {options} {LEARNED} --folds 3 --work work")


def test_a_column_of_words_that_is_not_there(products, cli):
    cli(f"train {products}/train.csv --qid query --categorical brand --fill 0 -o m.npz")
    Path("new.csv").write_text("query,price,stock\nq1,2,1\n")
    assert (
        "got no column 'brand=Zeta, Ltd', nor a categorical column 'brand'; its columns are "
        "'price', 'query', 'stock'" in cli.refuses("predict m.npz new.csv --qid query -o s")
    )
    Path("a.txt").write_text("1 qid:1 1:2\n0 qid:2 1:1\n")
    said = cli.refuses("search a.txt --categorical brand --folds 2")
    assert "--categorical: requires a table, got" in said


@pytest.mark.filterwarnings("default:.*distinct values:UserWarning")
def test_a_column_of_ids_among_the_words_is_said(cli):
    lines = [f"q{k // 2},p{k},{'xy'[k % 2]},{k % 2}" for k in range(30)]
    Path("t.csv").write_text("\n".join(["qid,product,brand,label", *lines]))
    cli("train t.csv -o m.npz --categorical brand,product")
    said = "t.csv: column 'product' has 30 distinct values in 30 rows, from which little can be learned"
    assert said in cli.err
    cli("train t.csv -o m.npz --categorical brand --docid product")
    assert cli.err == ""


LOWEST = float(np.finfo(np.float32).min)


@pytest.mark.parametrize("kind", ["csv", "parquet", "dense", "sparse"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gaps_stay_gaps_and_no_value_is_taken_for_one(cli, kind, dtype):
    """The smallest float32 is an ordinary value in memory, in stores and for tree models."""
    X = np.array([[np.nan, 2], [LOWEST, np.nan], [0, LOWEST], [np.nan, 1]] * 6, dtype=dtype)
    y, qid = np.array([1, 0, 0, 1] * 6), np.repeat(np.arange(6), 4)
    convert, options = {"csv": convert_csv, "parquet": convert_parquet}.get(kind, convert_letor), {}
    path = Path(f"a.{kind if kind in ('csv', 'parquet') else 'txt'}")
    if path.suffix == ".txt":
        options = {"sparse": kind == "sparse", "dtype": dtype}
        rows = zip(y, qid, X.tolist(), strict=True)
        path.write_text("".join(f"{g} qid:{q} 1:{a!r} 2:{b!r}\n" for g, q, (a, b) in rows))
    else:
        frame = pd.DataFrame({"qid": qid, "label": y, "a": X[:, 0], "b": X[:, 1]})
        write(frame.astype(float) if kind == "csv" else frame, path)
    data = read_queries(path, fill=np.nan, **options)
    assert data.X.dtype == (np.float64 if kind == "csv" else dtype)
    np.testing.assert_array_equal(data.X.toarray() if kind == "sparse" else data.X, X)
    for fill in (np.inf, 1e39)[: 1 + (dtype == "float32" and path.suffix == ".txt")]:
        refused(r"fill=.*finite number or NaN", read_queries, path, fill=fill, **options)
    rejected("expected", read_queries, path, **options)
    for fill in (7.0, np.nan):
        convert(path, Path("s"), fill=fill, **options)
        kept = open_store(Path("s")).X
        np.testing.assert_array_equal(
            kept.toarray() if kind == "sparse" else kept, np.where(np.isnan(X), fill, X)
        )
    cli("convert", path, "t --fill nan", f"--matrix {kind} --dtype {dtype}" if options else "")
    assert check_store("s")
    assert Path("s/meta.json").read_bytes() == Path("t/meta.json").read_bytes()
    assert "X[0, 0], query 0: expected a finite number, got NaN" in cli.refuses("train s -o l.npz")
    cli("train", path, "--trees --n-trees 2 --seed 0 -o m.npz")
    cli("predict m.npz", path, "-o scores")
    if kind == "dense" and dtype == "float64":
        cli("train s --trees --n-trees 2 --seed 0 -o of_store.npz")
        of_text, of_store = (structsvm.load(name).coef_ for name in ("m.npz", "of_store.npz"))
        np.testing.assert_array_equal(of_text, of_store)
    model = structsvm.load("m.npz")
    vars(model).pop("feature_names_in_", None)
    np.testing.assert_allclose(np.loadtxt("scores"), model.predict(X.astype(data.X.dtype)))


@pytest.mark.parametrize("kind", ["csv", "parquet", "txt"])
def test_tables_with_missing_cells_are_described(cli, kind):
    path, options = Path(f"a.{kind}"), {}
    if kind == "txt":
        path.write_text("0 qid:1 1:nan 2:2\n1 qid:1 1:3 2:nan\n1 qid:2 1:nan 2:1\n")
        options = {"sparse": False}
    else:
        write(
            pd.DataFrame({"qid": [1, 1, 2], "label": [0, 1, 1], "a": [None, 3, None], "b": [2, None, 1]}),
            path,
        )
    missing = np.isnan(read_queries(path, fill=np.nan, **options).X)
    np.testing.assert_array_equal(missing, [[True, False], [False, True], [True, False]])
    assert "missing values: 3" in cli("datasets describe", path)
    assert re.search(r"2 features have missing values: (a|1) \(2\), (b|2) \(1\)", cli.err)
    assert "missing values" in describe(path).counts
    assert describe(path, fill=0.0).counts.get("missing values") is None


def test_a_page_that_fails_leaves_the_results(products, cli, monkeypatch):
    def fail(*_):
        raise OSError("no page")

    monkeypatch.setattr("structsvm.cli.studies.folds.page.page", fail)
    options = "--qid query --features stock --method map,roc --C 1 --folds 3"
    assert cli.code(f"compare {products}/train.csv", options, "--csv t.csv --report page.html") == 2
    assert (cli.err.count("no page"), "best mean map" in cli.out) == (1, True)
    assert "svm-roc" in Path("t.csv").read_text()


def test_repeated_names_of_columns_add_up(cli):
    rows = [f"{k // 4},{k % 2},{'xy'[k % 2]},{'uv'[k // 2 % 2]},{k},{k % 3}" for k in range(24)]
    Path("t.csv").write_text("\n".join(["qid,label,first,second,a,b", *rows]) + "\n")
    for options, names in (
        ("--features b --features a", ["b", "a"]),
        ("--features a,b", ["a", "b"]),
        (
            "--categorical first --categorical second",
            ["a", "b", "first=x", "first=y", "second=u", "second=v"],
        ),
    ):
        cli("train t.csv -o m.npz", options)
        assert cli.err == ""
        assert structsvm.load("m.npz").feature_names_in_.tolist() == names
    said = cli.refuses("train t.csv -o m.npz --features a --features a")
    assert "--features a,a: expected distinct names" in said


def test_methods_of_trees_alone_take_gaps_as_they_are(products, cli, monkeypatch):
    """A search gets the scores of ``train --trees``; with a linear method, missing values are an error."""
    from structsvm.cli.studies.folds import lightgbm_ranker

    pytest.importorskip("lightgbm")
    monkeypatch.setattr(lightgbm_ranker, "MOST_TREES", 10)
    source = f"{products}/train.csv --qid query --features price,stock"
    options = "--folds 3 --jobs 1 --C 1 --work work --method"
    assert "--fill" in cli.refuses(f"compare {source} {options} tree,map")
    for command in (
        f"compare {source} {options} tree,lightgbm",
        f"search {source} {options} tree -o found.npz",
        f"train {source} --trees --C 1 -o trained.npz",
        f"predict found.npz {source} -o found",
        f"predict trained.npz {source} -o trained",
    ):
        cli(command)
        assert cli.err == ""
    assert Path("found").read_bytes() == Path("trained").read_bytes()
