"""Each format carries the names of features, clauses and models, or refuses them."""

import ast
import json
import random
import re

import numpy as np
import pytest

from structsvm import SVMMap, TreeRanker
from structsvm.common.checks import BadInput
from structsvm.export import FORMATS, check_export, export_model
from structsvm.export.hybrid import ENGINES
from structsvm.export.names import check_feature_names
from structsvm.export.ranking_expressions import evaluate
from structsvm.export.trees import TREE_FORMATS
from tests.laws import LAW
from tests.refusing import refused

X = np.abs(np.random.default_rng(0).normal(size=(40, 2))) + 0.1
Y, QID = (X.sum(axis=1) > 2).astype(int), np.repeat([0, 1], 20)
PIECES = [
    *"0123456789.+-*/()[]{},:;=<>#$@_'\"\\ \t\n\r\0\x0b\x0c\x1c\x85abfx",
    *"éß中\u00a0\u2028\u2029\u200b\U0001f600\ud800",
    *(
        "bm25(title)",
        "attribute(price)",
        "query(",
        "fieldMatch(t).completeness",
        "max",
        "if",
        "1e5",
        "0x1F",
        "--",
        "NaN",
    ),
]


def random_name(rng):
    if rng.random() < 0.4:
        return rng.choice(
            ["bm25(title)", "attribute(price)", "closeness(field,e)", "f_1", "nativeRank", "a", "x"]
        )
    return "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 4)))


@pytest.fixture(scope="module")
def linear():
    return SVMMap(C=1.0).fit(X, Y, qid=QID)


@pytest.fixture(scope="module")
def trees():
    return TreeRanker(n_trees=2, n_bins=0, random_state=0).fit(X, Y, qid=QID)


def names_in_json(content, key):
    """Return the values of a key at all depths."""
    if isinstance(content, dict):
        own = [content[key]] if isinstance(content.get(key), str) else []
        return own + [name for value in content.values() for name in names_in_json(value, key)]
    return (
        [name for value in content for name in names_in_json(value, key)] if isinstance(content, list) else []
    )


def vespa_names(text):
    """Return the rank features of the expression in a profile, which has to be an expression of Vespa's grammar."""
    found = []
    evaluate(
        re.search(r"expression \{\n(.*?)\n        \}", text, re.S)[1], lambda name: found.append(name) or 1.0
    )
    return found


def read_back(to, content):
    """Return the names of features in an export, as a parser of its format reads them; None if it has no names."""
    if to == "svmlight":
        return None
    if to == "vespa":
        return vespa_names(content.decode())
    if to == "onnx":
        onnx = pytest.importorskip("onnx")
        properties = {one.key: one.value for one in onnx.load_model_from_string(content).metadata_props}
        return json.loads(properties["feature_names"])
    if to == "lightgbm":
        return pytest.importorskip("lightgbm").Booster(model_str=content.decode()).feature_name()
    spec = json.loads(content)
    if to == "multi_match":
        return [field.rpartition("^")[0] for field in spec["query"]["multi_match"]["fields"]]
    if to == "solr":
        return [feature["name"] for feature in spec["features"]]
    if to == "json":
        features = spec["features"]
        return [one["name"] for one in features] if isinstance(features[0], dict) else features
    if to == "elastic":
        return spec["definition"]["trained_model"]["ensemble"]["feature_names"]
    if to == "xgboost":  # Vespa puts the name of a condition into an expression
        for name in names_in_json(spec, "split"):
            assert vespa_names(f"expression {{\n 1 * {name}\n        }}") == [name]
        return sorted(set(names_in_json(spec, "split")))
    definition = json.loads(spec["model"]["model"]["definition"])
    return [*definition] if isinstance(definition, dict) else sorted(set(names_in_json(definition, "split")))


def read_hybrid(to, text):
    """Return the names of clauses in the configuration of a hybrid query."""
    if to.startswith("opensearch"):
        return json.loads(text)["description"].removeprefix("clauses: ")
    if to.startswith("elasticsearch"):
        return names_in_json(json.loads(text), "QUERY")
    if to == "qdrant-rrf":
        return names_in_json(json.loads(text), "using")
    if to.startswith("vespa"):
        function = text.partition("* ")[2].partition("(")[0]
        return [
            name.removeprefix(f"{function}(").removesuffix(")").removesuffix(",60")
            for name in vespa_names(text)
        ]
    if to == "sql":
        return [line.partition("(  -- ")[2] for line in text.split("\n") if "(  -- " in line]
    if to == "weaviate":
        assert len(text.splitlines()) == 1
        return text.partition("must be the vectors, ")[2].removesuffix("\n")
    [call] = ast.parse(text).body
    lists = [node for node in ast.walk(call) if isinstance(node, ast.List)]
    return [node.id for node in lists[0].elts]


def cases(n):
    many = pytest.param(10_000, id="many", marks=LAW)
    return pytest.mark.parametrize("n", [pytest.param(n, id="few"), many])


def result_or_error(function, *args, **options):
    """Return the result of a call, or its BadInput."""
    try:
        return function(*args, **options)
    except BadInput as error:
        return error


@pytest.mark.filterwarnings("ignore::UserWarning")
@cases(25)
@pytest.mark.parametrize("to", sorted({*FORMATS, *TREE_FORMATS}))
def test_names_of_features_are_read_back_or_refused(to, n, linear, trees):
    rng, carried = random.Random(0), 0
    for model in [linear] * (to in FORMATS) + [trees] * (to in TREE_FORMATS):
        for _ in range(n):
            names = [random_name(rng), random_name(rng)]
            if len(set(names)) < 2:
                continue
            content = result_or_error(export_model, model, to, feature_names=names)
            if isinstance(content, BadInput):
                assert str(content).startswith("feature_names: expected"), content
                continue
            carried += 1
            if (got := read_back(to, content)) is not None:
                # the trees of the plugins list the features that they use
                listed = (
                    names if model is linear or to in ("solr", "elastic", "json", "onnx", "lightgbm") else got
                )
                assert sorted(got) == sorted(listed)
                assert {*got} <= {*names}
    assert carried > n / 100


@cases(100)
@pytest.mark.parametrize("to", sorted(ENGINES))
def test_names_of_clauses_are_read_back_or_refused(to, n):
    rng, carried = random.Random(1), 0
    for _ in range(n):
        names = [random_name(rng), random_name(rng)]
        try:
            check_feature_names(to, names, "runs")
        except BadInput:
            continue
        carried += 1
        got = read_hybrid(to, ENGINES[to].text(names, [0.25, 0.75], 100, 60))
        expected = {"weaviate": names[1]}.get(to, ", ".join(names) if to.startswith("opensearch") else names)
        assert got == expected
    assert carried > n / 100


@cases(100)
def test_names_of_profiles_are_identifiers(n, linear):
    """The token of Vespa's schemas: a letter or an underscore, then letters, digits and underscores."""
    rng = random.Random(2)
    for name in ["model.v2", "my model", "model", "_a1", "1a", *(random_name(rng) for _ in range(n))]:
        text = result_or_error(export_model, linear, "vespa", name=name)
        if isinstance(text, BadInput):
            assert "name=" in str(text)
            assert not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name)
        else:
            assert re.match(r"rank-profile ([A-Za-z_][A-Za-z0-9_]*) \{\n", text.decode())[1] == name


@pytest.mark.parametrize(
    ("name", "is_feature"),
    [
        ("bm25(title)", True), ("attribute(price)", True), ("fieldMatch(title).completeness", True), ("a.b.c", True),
        ("closeness(field,e)", True), ("term(0).weight", True), ("f(-1)", True), ("g(-1)", True), ("query(x)", True),
        ('attribute(tags,"a b")', True), ("1", False), ("1e5", False), ("0x1F", False), ("1a", False), ("", False),
        ("a b", False), ("bm25( title)", False), ("c)", False), ("a-b", False), ("a.", False), ("título", False),
        ("max", False), ("if", False), ("a#", False), ("a\n", False), ("a()", False), ("$x", False),
    ],
)  # fmt: skip
def test_rank_features(name, is_feature, linear):
    try:
        check_feature_names("vespa", [name])
    except BadInput:
        assert not is_feature
    else:
        assert is_feature


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 + 2 * 3", 7.0),
        ("(1 + 2) * 3 - 4 / 2", 7.0),
        ("-2 * x + +1", None),
        ("-2 * x - -1", -5.0),
        ("2 * (x - 0.5) / 5e-1 # comment", 10.0),
        ("10 - 3 - 2", 5.0),
        ("2e0f + 0x10 + 3L", 21.0),
        ("bm25(title) * x.y(1)", None),
        ("max(x, 1)", None),
        ("1 +", None),
        ("x x", None),
    ],
)
def test_expressions(expression, expected):
    if expected is None:
        refused(
            "expected a ranking expression",
            evaluate,
            expression,
            {"x": 3.0, "bm25(title)": 1.0, "x.y": 1.0}.get,
        )
    else:
        assert evaluate(expression, {"x": 3.0}.__getitem__) == expected


def test_a_mapping_renames_some_features(linear):
    import pandas as pd

    rows = pd.DataFrame(X, columns=["1", "price"])
    model = SVMMap(C=1.0).fit(rows, Y, qid=QID)
    refused(
        r"expected rank features as names, .* got '1'; .*feature_names=\{'1': ", export_model, model, "vespa"
    )
    content = export_model(model, "vespa", feature_names={"1": "attribute(price)"})
    assert vespa_names(content.decode()) == ["attribute(price)", "price"]
    assert (
        check_export(content, model, "vespa", rows, feature_names={"1": "attribute(price)"}).n_reversed == 0
    )
    refused("expected rank features as names", check_export, content, model, "vespa", rows)
    refused(
        "expected names of features, such as '1', got '2'",
        export_model,
        model,
        "json",
        feature_names={"2": "x"},
    )


@pytest.mark.parametrize("to", sorted(FORMATS))
def test_empty_names_are_refused(to, linear):
    refused("name='': expected", export_model, linear, to, name="")
    if to == "solr":
        refused("store='': expected a name", export_model, linear, to, store="")
