"""Columns of words, missing cells and trees on the command line, from training to prediction."""

import csv
import json
import re
import shutil

import numpy as np
import pytest

import structsvm
from structsvm.checks import BadInput
from structsvm.cli import main
from structsvm.datasets import describe
from structsvm.readers import (
    convert_csv,
    convert_letor,
    convert_parquet,
    make_ranking,
    open_store,
    read_queries,
    write_letor,
)

BRANDS = ("acme", "b=c", "Zeta, Ltd")


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def write(path, rows):
    if path.suffix == ".parquet":
        pd = pytest.importorskip("pandas")
        header, *lines = rows
        frame = pd.DataFrame({name: [line[j] for line in lines] for j, name in enumerate(header)})
        frame["price"] = pd.to_numeric(frame["price"])
        frame.replace({"brand": {"": None}}).to_parquet(path)
        return
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


@pytest.fixture(scope="module")
def products(tmp_path_factory):
    """200 products of 20 queries; the label depends on the brand and the price, of which a tenth is missing."""
    folder, rng = tmp_path_factory.mktemp("products"), np.random.default_rng(0)
    rows = [["query", "brand", "price", "stock", "label"]]
    for k in rng.permutation(200).tolist():
        brand, price = rng.integers(3), round(float(rng.uniform(1, 9)), 2)
        label = int(brand == 1) + int(price < 5)
        missing = rng.random() < 0.1
        rows.append([f"q{k % 20}", BRANDS[brand], "" if missing else price, int(rng.integers(9)), label])
    write(folder / "train.csv", rows)
    write(folder / "train.parquet", rows)
    # other products, without labels; one brand is new, one missing
    fresh = [["stock", "brand", "query", "price"], [1, "acme", "q1", 2.0], [1, "b=c", "q1", 2.0], [3, "new", "q1", ""],
             [3, "", "q1", 4.0]]  # fmt: skip
    write(folder / "new.csv", fresh)
    write(folder / "new.parquet", fresh)
    return folder


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_words_and_medians_are_kept_with_the_model(products, tmp_path, capsys, kind):
    train = ("train", products / f"train.{kind}", "--qid", "query", "-o", tmp_path / "m.npz", "--C", 10)
    code, out, err = run(capsys, *train, "--categorical", "brand", "--fill", "median")
    assert (code, "5 features" in out) == (0, True), err
    model = structsvm.load(tmp_path / "m.npz")
    names = ["price", "stock", "brand=Zeta, Ltd", "brand=acme", "brand=b=c"]
    assert list(model.feature_names_in_) == names
    with (products / "train.csv").open(newline="") as file:
        median = np.median([float(row["price"]) for row in csv.DictReader(file) if row["price"]])
    assert model.table_["fill"][0] == median
    assert model.coef_[4] > model.coef_[3]
    code, _, err = run(
        capsys,
        "predict",
        tmp_path / "m.npz",
        products / f"new.{kind}",
        "--qid",
        "query",
        "-o",
        tmp_path / "s",
    )
    assert code == 0
    assert "1 rows have a 'brand' that the model does not know, such as 'new'" in err
    X = np.array([[2, 1, 0, 1, 0], [2, 1, 0, 0, 1], [median, 3, 0, 0, 0], [4, 3, 0, 0, 0]])
    np.testing.assert_allclose(np.loadtxt(tmp_path / "s"), X @ model.coef_, rtol=1e-12)
    # only what was missing is named for the engine, none of the words
    _, _, err = run(capsys, "export", tmp_path / "m.npz", "--to", "json")
    assert f"send them: price={median:g}\n" in err
    # a number in place of the medians
    command = ("predict", tmp_path / "m.npz", products / f"new.{kind}", "--qid", "query", "--fill", "7")
    assert run(capsys, *command, "-o", tmp_path / "s")[0] == 0
    X[2, 0] = 7
    np.testing.assert_allclose(np.loadtxt(tmp_path / "s"), X @ model.coef_, rtol=1e-12)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_models_pass_between_python_and_the_command_line(products, tmp_path, capsys, kind):
    """Both ways, with names of columns stated: categories of a frame, and columns made of words."""
    pd = pytest.importorskip("pandas")
    pytest.importorskip("lightgbm", reason="pip install lightgbm")
    train, new = pd.read_csv(products / "train.csv"), pd.read_csv(products / "new.csv")
    features = ["brand", "price", "stock"]
    words = train[features].assign(brand=train.brand.astype("category"))
    tree = structsvm.TreeRanker(n_trees=5, n_leaves=4, random_state=0).fit(
        words, train.label, qid=train["query"]
    )
    tree.save(tmp_path / "tree.npz")
    options = ("--qid", "query", "--features", "price,stock,brand")
    predict = (products / f"new.{kind}", *options, "-o", tmp_path / "s")
    code, _, err = run(capsys, "predict", tmp_path / "tree.npz", *predict)
    assert (code, "1 rows have a 'brand' that the model does not know, such as 'new'; it counts as" in err) == (
        0, True
    ), err  # fmt: skip
    with pytest.warns(UserWarning, match="1 categories that training did not have"):
        expected = tree.predict(new[features].assign(brand=new.brand.astype("category")))
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "s"), expected)

    command = ("train", products / f"train.{kind}", *options, "--categorical", "brand", "--fill", "median")
    assert run(capsys, *command, "-o", tmp_path / "m.npz")[0] == 0
    assert run(capsys, "predict", tmp_path / "m.npz", *predict)[0] == 0
    model = structsvm.load(tmp_path / "m.npz")
    with pytest.raises(
        BadInput, match=r"text in the column.* 'brand'.*; make the features .* of them"
    ) as said:
        model.predict(new)
    X = eval(said.value.code, {"pd": pd, "X": new, "model": model})
    X = X.fillna(dict(zip(model.feature_names_in_, model.table_["fill"], strict=True)))
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "s"), model.predict(X))


def test_medians_of_a_text(tmp_path, capsys):
    rows = ["2 qid:1 1:nan 2:1", "1 qid:1 1:4 2:nan", "0 qid:1 1:2 2:3", "1 qid:2 1:8", "0 qid:2 2:nan"]
    (tmp_path / "a.txt").write_text("\n".join(rows) + "\n")
    assert run(capsys, "train", tmp_path / "a.txt", "-o", tmp_path / "m.npz", "--fill", "median")[0] == 0
    model = structsvm.load(tmp_path / "m.npz")
    vars(model).pop("feature_names_in_", None)
    np.testing.assert_array_equal(model.table_["fill"], [3.0, 1.0])
    assert run(capsys, "predict", tmp_path / "m.npz", tmp_path / "a.txt", "-o", tmp_path / "s")[0] == 0
    code, out, err = run(capsys, "export", tmp_path / "m.npz", "--to", "json")
    assert (code, out.startswith("{")) == (0, True)
    assert "medians in place of missing features, which no format holds; send them: 1=3, 2=1\n" in err
    X = np.array([[3, 1], [4, 1], [2, 3], [8, 0], [0, 1]])
    np.testing.assert_allclose(np.loadtxt(tmp_path / "s"), X @ model.coef_, rtol=1e-12)


def test_trees_take_words_and_gaps(products, tmp_path, capsys):
    pytest.importorskip("lightgbm", reason="pip install lightgbm")
    command = (
        "train",
        products / "train.csv",
        "--qid",
        "query",
        "-o",
        tmp_path / "m.npz",
        "--loss",
        "ndcg@10",
    )
    options = ("--trees", "--n-trees", 10, "--n-leaves", 4, "--categorical", "brand")
    code, out, err = run(capsys, *command, *options)
    assert (code, "5 features" in out) == (0, True), err
    model = structsvm.load(tmp_path / "m.npz")
    assert (type(model).__name__, model.loss, model.n_trees, model.n_leaves) == (
        "TreeRanker",
        "ndcg@10",
        10,
        4,
    )
    predict = ("predict", tmp_path / "m.npz", products / "new.csv", "--qid", "query", "-o", tmp_path / "s")
    assert run(capsys, *predict)[0] == 0
    X = np.array([[2, 1, 0, 1, 0], [2, 1, 0, 0, 1], [np.nan, 3, 0, 0, 0], [4, 3, 0, 0, 0]])
    model.__dict__.pop("feature_names_in_")
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "s"), model.predict(X))
    assert np.loadtxt(tmp_path / "s")[1] > np.loadtxt(tmp_path / "s")[0]


def test_methods_of_trees_for_every_loss(products, tmp_path, capsys):
    pytest.importorskip("lightgbm", reason="pip install lightgbm")
    data = ("compare", products / "train.csv", "--qid", "query", "--features", "price,stock", "--fill", 0)
    code, out, err = run(
        capsys, *data, "--folds", 3, "--method", "tree-MRR,tree", "--C", "0.1", "--jobs", 1, "--tol", 0.1
    )
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()[1:3]] == ["tree-mrr", "tree"]
    code, _, err = run(capsys, *data, "--method", "tree-nope")
    assert code == 2
    assert "--method tree-nope: loss='nope': expected one of" in err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--trees", "--monotone", "price:-1"], "--monotone: expected a linear model, without --trees; the weights of "
         "leaves are bound to no order along a feature"),
        (["--trees", "--positive"], "--positive: expected a linear model, without --trees"),
        (["--trees", "--scale", "zscore"], "--scale: expected a linear model, without --trees"),
        (["--n-trees", "5"], "--n-trees: expected --trees with it"),
        (["--categorical", "brnad"], "which are 'brand', 'price', 'stock', got 'brnad'; did you mean 'brand'?"),
        (["--categorical", "label"], "got 'label'"),
        (["--categorical", "brand"], "expected a finite number, got an empty cell"),
        (["--fill", "mean"], "--fill mean: expected a finite number, or median in train"),
        (["--fill", "inf"], "--fill inf: expected a finite number"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together(products, tmp_path, capsys, options, said):
    code, _, err = run(
        capsys, "train", products / "train.csv", "--qid", "query", "-o", tmp_path / "m.npz", *options
    )
    assert code == 2
    assert said in err
    assert not (tmp_path / "m.npz").exists()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_compare_and_search_learn_words_and_medians_in_training(products, tmp_path, capsys, kind):
    """The same figures as with features made by hand: words and medians of the training part in all parts."""
    pd = pytest.importorskip("pandas")
    table = pd.read_csv(products / "train.csv")
    # the brand "b=c" is not in training, and so in no feature
    number = table["query"].str[1:].astype(int)
    parts = {"train": table[(number < 10) & (table.brand != "b=c")], "vali": table[(number >= 10) & (number < 15)],
             "test": table[number >= 15]}  # fmt: skip
    for name, rows in parts.items():
        for made in (False, True):
            frame = rows.drop(columns="brand")
            if made:
                for brand in ("Zeta, Ltd", "acme"):
                    frame[f"brand={brand}"] = (rows.brand == brand).astype(float)
                frame["price"] = frame.price.fillna(parts["train"].price.median())
            else:
                frame.insert(1, "brand", rows.brand)
            path = tmp_path / ("made" if made else "words") / f"{name}.{kind}"
            path.parent.mkdir(exist_ok=True)
            frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    options = ("--qid", "query", "--C", "0.1,10", "--method", "map,ndcg@3", "--scale", "zscore", "--json")
    learned = ("--categorical", "brand", "--fill", "median")
    found = {}
    for folder, further in (("words", learned), ("made", ())):
        code, out, err = run(capsys, "compare", tmp_path / folder, *options, *further)
        assert code == 0, err
        search = (
            "search",
            tmp_path / folder / f"train.{kind}",
            "--validation",
            tmp_path / folder / f"vali.{kind}",
        )
        code, best, err = run(capsys, *search, *options, *further, "-o", tmp_path / f"{folder}.npz")
        assert code == 0, err
        found[folder] = {**json.loads(out), "seconds": None, "search": json.loads(best)}
        del found[folder]["folds"]
    assert found["words"] == found["made"]
    model, made = (structsvm.load(tmp_path / f"{folder}.npz") for folder in ("words", "made"))
    assert model.coef_.tolist() == made.coef_.tolist()
    assert list(model.feature_names_in_) == ["price", "stock", "brand=Zeta, Ltd", "brand=acme"]
    # prediction finds both in the model
    predict = ("--qid", "query", "-o", tmp_path / "s")
    assert run(capsys, "predict", tmp_path / "words.npz", tmp_path / f"words/test.{kind}", *predict)[0] == 0
    scores = np.loadtxt(tmp_path / "s")
    assert run(capsys, "predict", tmp_path / "made.npz", tmp_path / f"made/test.{kind}", *predict)[0] == 0
    np.testing.assert_array_equal(scores, np.loadtxt(tmp_path / "s"))
    # one file that is cut into folds, whose cells are found again
    cut = (
        "compare",
        products / f"train.{kind}",
        *options,
        *learned,
        "--folds",
        3,
        "--work",
        tmp_path / "work",
    )
    assert run(capsys, *cut)[0] == 0
    assert run(capsys, *cut)[0] == 0


def test_folds_with_other_words_have_no_mean_of_weights(tmp_path, capsys):
    """Two words in each fold, not the same: weights of one name do not stand under another."""
    for fold, words in ((1, "ab"), (2, "bc")):
        for part, first in (("train", 0), ("vali", 10), ("test", 20)):
            path = tmp_path / "data" / f"Fold{fold}" / f"{part}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            rows = [
                f"{first + q},{word},{int(word == 'b')}"
                for q in range(4)
                for word in (words if part == "train" else "abc")
            ]
            path.write_text("\n".join(["qid,brand,label", *rows]) + "\n")
    command = ("compare", tmp_path / "data", "--categorical", "brand", "--method", "map", "--C", "1")
    assert run(capsys, *command, "--report", tmp_path / "page.html")[0] == 0
    page = (tmp_path / "page.html").read_text()
    assert "brand=b" not in page
    shutil.rmtree(tmp_path / "data" / "Fold2")
    assert run(capsys, *command, "--report", tmp_path / "page.html")[0] == 0
    assert "brand=b" in (tmp_path / "page.html").read_text()


def test_medians_of_a_text_in_folds(tmp_path, capsys):
    rng = np.random.default_rng(0)
    values = [("nan" if k % 5 == 0 else f"{v:.3f}", int(v > 0)) for k, v in enumerate(rng.normal(size=60))]
    rows = [f"{label} qid:{k // 6} 1:{value} 2:{k % 3}" for k, (value, label) in enumerate(values)]
    (tmp_path / "a.txt").write_text("\n".join(rows) + "\n")
    command = ("search", tmp_path / "a.txt", "--method", "map", "--C", "1", "--folds", 2)
    code, _, err = run(capsys, *command)
    assert (code, "state a value for missing ones as --fill" in err) == (2, True), err
    code, _, err = run(capsys, *command, "--fill", "median", "-o", tmp_path / "m.npz")
    assert code == 0, err
    known = [float(value) for value, _ in values if value != "nan"]
    np.testing.assert_allclose(structsvm.load(tmp_path / "m.npz").table_["fill"], [np.median(known), 1.0])


def test_a_column_of_words_that_is_not_there(products, tmp_path, capsys):
    command = ("train", products / "train.csv", "--qid", "query", "--categorical", "brand", "--fill", 0)
    assert run(capsys, *command, "-o", tmp_path / "m.npz")[0] == 0
    (tmp_path / "new.csv").write_text("query,price,stock\nq1,2,1\n")
    code, _, err = run(
        capsys, "predict", tmp_path / "m.npz", tmp_path / "new.csv", "--qid", "query", "-o", tmp_path / "s"
    )
    assert code == 2
    assert (
        "got no column 'brand=Zeta, Ltd', nor a column of words 'brand' of which it is a value; its columns are "
        "'price', 'query', 'stock'" in err
    )
    (tmp_path / "a.txt").write_text("1 qid:1 1:2\n0 qid:2 1:1\n")
    code, _, err = run(capsys, "search", tmp_path / "a.txt", "--categorical", "brand", "--folds", 2)
    assert (code, "--categorical: expected a table with it, got" in err) == (2, True)


@pytest.mark.filterwarnings("default:.*different values:UserWarning")
def test_a_column_of_ids_among_the_words_is_said(tmp_path, capsys):
    lines = [f"q{k // 2},p{k},{'xy'[k % 2]},{k % 2}" for k in range(30)]
    (tmp_path / "t.csv").write_text("\n".join(["qid,product,brand,label", *lines]))
    train = ("train", tmp_path / "t.csv", "-o", tmp_path / "m.npz", "--categorical")
    code, _, err = run(capsys, *train, "brand,product")
    assert code == 0
    assert "t.csv: column 'product' has 30 different values in 30 rows, of which little can be learned" in err
    assert run(capsys, *train, "brand", "--docid", "product")[2] == ""


def test_medians_are_for_training(products, tmp_path, capsys):
    source = products / "train.csv"
    code, _, err = run(capsys, "convert", source, tmp_path / "s", "--qid", "query", "--fill", "median")
    assert (
        code,
        "--fill median: expected a number; only train, search and compare learn medians" in err,
    ) == (2, True)
    command = ("train", source, "--qid", "query", "-o", tmp_path / "m.npz", "--features", "stock")
    assert run(capsys, *command)[0] == 0
    code, _, err = run(
        capsys,
        "predict",
        tmp_path / "m.npz",
        source,
        "--qid",
        "query",
        "--fill",
        "median",
        "-o",
        tmp_path / "s",
    )
    assert (code, "expected a model that was trained with it" in err) == (2, True)
    empty = tmp_path / "empty.csv"
    empty.write_text("qid,label,a,b\n1,0,,2\n1,1,,1\n")
    code, _, err = run(capsys, "train", empty, "-o", tmp_path / "n.npz", "--fill", "median")
    assert (code, "expected values of each feature for its median, got none of 'a'" in err) == (2, True)


LOWEST = float(np.finfo(np.float32).min)


@pytest.mark.parametrize("kind", ["csv", "parquet", "dense", "sparse"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gaps_stay_gaps_and_no_value_is_taken_for_one(tmp_path, capsys, kind, dtype):
    """The smallest float32 is a value like others, in memory, in stores and for a model of trees."""
    X = np.array([[np.nan, 2], [LOWEST, np.nan], [0, LOWEST], [np.nan, 1]] * 6, dtype=dtype)
    y, qid = np.array([1, 0, 0, 1] * 6), np.repeat(np.arange(6), 4)
    convert, options = {"csv": convert_csv, "parquet": convert_parquet}.get(kind, convert_letor), {}
    path = tmp_path / f"a.{kind if kind in ('csv', 'parquet') else 'txt'}"
    if path.suffix == ".txt":
        options = {"sparse": kind == "sparse", "dtype": dtype}
        rows = zip(y, qid, X.tolist(), strict=True)
        path.write_text("".join(f"{g} qid:{q} 1:{a!r} 2:{b!r}\n" for g, q, (a, b) in rows))
    else:
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame({"qid": qid, "label": y, "a": X[:, 0], "b": X[:, 1]})
        frame.astype(float).to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    data = read_queries(path, fill=np.nan, **options)
    assert data.X.dtype == (np.float64 if kind == "csv" else dtype)
    np.testing.assert_array_equal(data.X.toarray() if kind == "sparse" else data.X, X)
    for fill, message in ((np.inf, "finite number or NaN"), (1e39, "finite number or NaN")):
        if fill == np.inf or (dtype == "float32" and path.suffix == ".txt"):
            with pytest.raises(BadInput, match=f"fill=.*{message}"):
                read_queries(path, fill=fill, **options)
    with pytest.raises(ValueError, match="expected"):
        read_queries(path, **options)
    with pytest.raises(BadInput, match="fill=nan: expected a finite number, as stores hold no NaN"):
        convert(path, tmp_path / "s", fill=np.nan, **options)
    convert(path, tmp_path / "s", fill=7.0, **options)
    kept = open_store(tmp_path / "s").X
    np.testing.assert_array_equal(kept.toarray() if kind == "sparse" else kept, np.where(np.isnan(X), 7, X))
    train = ("train", path, "--trees", "--n-trees", 2, "--seed", 0, "-o", tmp_path / "m.npz")
    assert run(capsys, *train)[0] == 0
    code, _, _ = run(capsys, "predict", tmp_path / "m.npz", path, "--output", tmp_path / "scores")
    model = structsvm.load(tmp_path / "m.npz")
    vars(model).pop("feature_names_in_", None)
    np.testing.assert_allclose(np.loadtxt(tmp_path / "scores"), model.predict(X.astype(data.X.dtype)))
    assert code == 0


@pytest.mark.parametrize("kind", ["csv", "parquet", "txt"])
def test_tables_with_missing_cells_are_described(tmp_path, capsys, kind):
    path = tmp_path / f"a.{kind}"
    if kind == "txt":
        path.write_text("0 qid:1 1:nan 2:2\n1 qid:1 1:3 2:nan\n1 qid:2 1:nan 2:1\n")
    else:
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame({"qid": [1, 1, 2], "label": [0, 1, 1], "a": [None, 3, None], "b": [2, None, 1]})
        frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    np.testing.assert_array_equal(
        np.isnan(read_queries(path, fill=np.nan, **({"sparse": False} if kind == "txt" else {})).X),
        [[True, False], [False, True], [True, False]],
    )
    code, out, err = run(capsys, "datasets", "describe", path)
    assert (code, "missing values: 3" in out) == (0, True)
    assert re.search(r"2 features have missing values: (a|1) \(2\), (b|2) \(1\)", err)
    assert "missing values" in describe(path).counts
    assert describe(path, fill=0.0).counts.get("missing values") is None


@pytest.mark.parametrize("names", [(), ("--qid", "query", "--features", "price,stock", "--fill", "0")])
def test_a_page_draws_no_weights_of_leaves_as_those_of_features(products, tmp_path, capsys, names):
    pytest.importorskip("lightgbm")
    source = products / "train.csv"
    if not names:
        source = tmp_path / "rows.txt"
        write_letor(make_ranking(20, 6, 3, random_state=0), source)
    command = (
        "compare",
        source,
        *names,
        "--method",
        "tree-ndcg@10,map",
        "--C",
        "1",
        "--folds",
        3,
        "--jobs",
        1,
    )
    code, _, err = run(capsys, *command, "--report", tmp_path / "page.html")
    assert (code, err) == (0, "")
    page = (tmp_path / "page.html").read_text()
    assert "Not drawn: tree-ndcg@10, whose models have no weights of features." in page
    learned = page[page.index("<h2>What was learned") : page.index("<h2>How sure")]
    assert "svm-map" in learned
    assert "leaf" not in learned
    assert "feature 4" not in learned
    assert learned.count("<figure>") == 1


def test_a_page_that_fails_leaves_the_results(products, tmp_path, capsys, monkeypatch):
    def fail(*_):
        raise OSError("no page")

    monkeypatch.setattr("structsvm.studies.folds.page.page", fail)
    names = ("--qid", "query", "--features", "stock", "--method", "map,roc", "--C", "1", "--folds", 3)
    written = ("--markdown", tmp_path / "t.md", "--report", tmp_path / "page.html")
    code, out, err = run(capsys, "compare", products / "train.csv", *names, *written)
    assert (code, err.count("no page"), "best mean map" in out) == (2, 1, True)
    assert "svm-roc" in (tmp_path / "t.md").read_text()


def test_repeated_names_of_columns_add_up(tmp_path, capsys):
    rows = [f"{k // 4},{k % 2},{'xy'[k % 2]},{'uv'[k // 2 % 2]},{k},{k % 3}" for k in range(24)]
    (tmp_path / "t.csv").write_text("\n".join(["qid,label,first,second,a,b", *rows]) + "\n")
    train = ("train", tmp_path / "t.csv", "-o", tmp_path / "m.npz")
    for options, names in (
        (("--features", "b", "--features", "a"), ["b", "a"]),
        (("--features", "a,b"), ["a", "b"]),
        (("--categorical", "first", "--categorical", "second"),
         ["a", "b", "first=x", "first=y", "second=u", "second=v"]),
    ):  # fmt: skip
        assert run(capsys, *train, *options)[::2] == (0, "")
        assert structsvm.load(tmp_path / "m.npz").feature_names_in_.tolist() == names
    code, _, err = run(capsys, *train, "--features", "a", "--features", "a")
    assert (code, "--features a,a: expected different names" in err) == (2, True)


@pytest.mark.parametrize("form", ["csv", "text"])
def test_methods_of_trees_alone_take_gaps_as_they_are(products, tmp_path, capsys, monkeypatch, form):
    """A search finds the scores of ``train --trees``; with a linear method a gap stays an error."""
    from structsvm.studies.folds import peers

    pytest.importorskip("lightgbm")
    monkeypatch.setattr(
        peers.best_boosted, "__kwdefaults__", peers.best_boosted.__kwdefaults__ | {"most_trees": 10}
    )
    source, names = products / "train.csv", ("--qid", "query", "--features", "price,stock")
    if form == "text":
        known = read_queries(source, qid="query", features=("price", "stock"), fill=np.nan)
        source, names = tmp_path / "t.txt", ()
        lines = [
            f"{y:g} qid:{q} 1:{a} 2:{b}" for y, q, (a, b) in zip(known.y, known.qid, known.X, strict=True)
        ]
        source.write_text("\n".join(lines) + "\n")
    options = (*names, "--folds", 3, "--jobs", 1, "--C", "1", "--work", tmp_path / "work")
    code, _, err = run(capsys, "compare", source, *options, "--method", "tree,lightgbm")
    assert (code, err) == (0, "")
    code, _, err = run(capsys, "compare", source, *options, "--method", "tree,map")
    assert (code, "--fill" in err) == (2, True)
    model, scores = tmp_path / "m.npz", tmp_path / "scores.txt"
    assert run(capsys, "search", source, *options, "--method", "tree", "-o", model)[::2] == (0, "")
    trained = tmp_path / "t.npz"
    assert run(capsys, "train", source, *names, "--trees", "--C", "1", "-o", trained)[::2] == (0, "")
    for path in (model, trained):
        assert run(capsys, "predict", path, source, *names, "-o", scores.with_suffix(f".{path.stem}"))[
            ::2
        ] == (0, "")
    assert scores.with_suffix(".m").read_bytes() == scores.with_suffix(".t").read_bytes()
