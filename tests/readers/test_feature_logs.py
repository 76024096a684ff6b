"""Feature logs of engines: contents, and errors that name the query and document."""

import json

import numpy as np
import pytest

from structsvm.common.checks import BadInput
from structsvm.readers import Qrels, read_feature_log
from tests.laws import LAW
from tests.refusing import rejected, rejections


def hit(document, **values):
    entries = [{"name": name} | ({} if value is None else {"value": value}) for name, value in values.items()]
    return {"_id": document, "_score": 1.0, "fields": {"_ltrlog": [{"features": entries}]}}


def answer(*hits):
    return {"took": 1, "hits": {"hits": list(hits)}}


def logged(document, *features):
    return {"_id": document, "fields": {"_ltrlog": {"features": list(features)}}}


def solr(*documents):
    return {"response": {"numFound": len(documents), "docs": list(documents)}}


TITLE = ({"name": "title", "value": 1.5},)
ANSWERS = [
    ("lamp", answer(hit("a", title=2.5, price=None), hit("b", title=None, price=3.0))),
    ("red, sofa", answer(hit("a", price=1.0, stock=7.0))),
    ("lamp", answer(hit("c", title=1.0, price=9.0))),  # the next page
]
QRELS = Qrels.from_arrays(["lamp", "lamp", "sofa"], ["b", "z", "a"], [2, 1, 1])


@pytest.mark.parametrize("source", ["pairs", "file"])
def test_the_plugin(source, tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps({"qid": q} | one) + "\n" for q, one in ANSWERS))
    data = read_feature_log(ANSWERS if source == "pairs" else path, QRELS, unmatched={"title": "zero"})
    assert data.feature_names == ("title", "price", "stock")
    assert data.query_ids.tolist() == ["lamp", "red, sofa"]
    assert data.docid.tolist() == ["a", "b", "c", "a"]
    assert data.y.tolist() == [0, 2, 0, 0]
    nan = np.nan
    np.testing.assert_array_equal(data.X, [[2.5, nan, nan], [0, 3, nan], [1, 9, nan], [0, 1, 7]])
    assert not np.isnan(read_feature_log(ANSWERS, unmatched="zero").X).any()
    assert read_feature_log(dict(ANSWERS[:2]), unmatched="zero").docid.tolist() == ["a", "b", "a"]


def test_solr():
    documents = [{"id": 1, "[features]": "a=1.0,b(x=y)=0.5"}, {"id": 2, "[features]": "a=NaN,b(x=y)=1e-07"}]
    data = read_feature_log([("q", {"response": {"docs": documents}})], unmatched="zero")
    assert data.feature_names == ("a", "b(x=y)")
    np.testing.assert_array_equal(data.X, [[1.0, 0.5], [np.nan, 1e-7]])
    assert data.docid.tolist() == ["1", "2"]


test_what_is_refused = rejections(
    lambda answers, options: read_feature_log(answers, **{"unmatched": "zero", **options}),
    ([("q", answer({"_id": "a"}))], {}, "query q, document a: expected fields._ltrlog with 'features', got "),
    ([("q", {"response": {"docs": [{"id": 3}]}})], {}, r"query q, document 3: expected \[features\]"),
    ([("q", {"error": 1})], {}, "query q: expected an answer with hits, response or grouped"),
    ([("q", [1])], {}, r"query q: expected an answer as an object, got \[1\]"),
    ([(None, answer())], {}, "expected query ids as text or numbers, got None"),
    (
        [("q", answer(hit("a", title="abc")))],
        {},
        "query q, document a: expected a number for the feature 'title', got 'abc'",
    ),
    ([("q", answer(hit("a", title={"x": 1})))], {}, "document a: expected a number for the feature 'title'"),
    (
        [("q", answer(logged("a", {"value": 1})))],
        {},
        "query q, document a: expected 'name' to be a text, got None",
    ),
    (
        [("q", answer(logged("a", *TITLE * 2)))],
        {},
        "query q, document a: expected each feature once, got 'title' twice",
    ),
    (
        [("q", answer(hit("a", x=1), hit("a", x=2)))],
        {},
        "query q, document a: expected each document of a query once",
    ),
    ([("q", answer(hit("a", x=1)) | {"timed_out": True})], {}, "query q: expected a complete answer"),
    ([("q", answer(hit("a", x=1)) | {"_shards": {"failed": 1}})], {}, "query q: expected a complete answer"),
    (
        [("q", solr({"id": 1, "[features]": "a=1"}) | {"responseHeader": {"partialResults": True}})],
        {},
        "complete answer",
    ),
    (
        [("q", solr({"sku": "a", "[features]": "a=1"}))],
        {},
        "query q: .* 'id', got None among 'sku', .*; id= is the uniqueKey",
    ),
    (
        [("q", solr({"id": 1, "[features]": "a:1.0 b:2.0"}))],
        {},
        "document 1: expected .* as a=1.0,b=2.0, got 'a:1.0 b:2.0'; give separators=",
    ),
    (
        [("q", {"responses": [answer(), answer()]})],
        {},
        "expected a list of query ids, one for each of the 2 responses",
    ),
    (
        ANSWERS,
        {"qrels": Qrels.from_arrays(["bed"], ["a"], [1])},
        "qrels: expected judgments of at least one query",
    ),
    ([], {}, "expected at least one hit"),
    (ANSWERS, {"unmatched": "nan"}, "expected 'zero' or 'missing', got 'nan'"),
    (ANSWERS, {"unmatched": {"prize": "zero"}}, "expected names of logged features, got 'prize'"),
)


def test_a_line_of_a_file_is_named(tmp_path):
    path = tmp_path / "log.jsonl"
    for text, message in (
        ("{", "log.jsonl:1: expected a JSON object"),
        ('{"hits": {}}', "log.jsonl:1: .* the key 'qid'"),
    ):
        path.write_text(text + "\n")
        rejected(message, read_feature_log, path, unmatched="zero")


def test_forms_of_answers():
    """An object as ``_ltrlog``, extra values, other keys and separators, groups, and several searches at once."""
    extra = {"name": "extra_logging", "value": {"dup_count": 3, "rel": "x"}}
    plain = answer(logged("a", *TITLE, extra), logged("b", {"name": "title"}))
    documents = [{"sku": "a", "[features]": "title:1.5; "}, {"sku": "b", "[features]": "title:NaN"}]
    groups = {
        "grouped": {"brand": {"matches": 2, "groups": [{"doclist": {"docs": [one]}} for one in documents]}}
    }
    simple = {"grouped": {"brand": {"matches": 2, "doclist": {"docs": documents}}}}
    options = {"id": "sku", "separators": (":", ";")}
    for source, more in (
        ([("q", plain)], {}),
        ([(["q"], {"responses": [plain]})], {}),
        ([("q", solr(*documents))], options),
        ([("q", groups)], options),
        ([("q", simple)], options),
    ):
        data = read_feature_log(source, unmatched="missing", **more)
        assert data.feature_names == ("title",)
        np.testing.assert_array_equal(data.X, [[1.5], [np.nan]])
        assert data.docid.tolist() == ["a", "b"]
        assert data.query_ids.tolist() == ["q"]


JUDGED = Qrels.from_arrays(["lamp", "sofa"], ["a", "4"], [2, 1])
REAL = [
    (
        "lamp",
        {"took": 3, "timed_out": False, "_shards": {"total": 2, "failed": 0}}
        | answer(hit("a", title=2.5, price=None), logged("b", *TITLE)),
    ),
    (
        "sofa",
        {"responseHeader": {"status": 0}}
        | solr({"id": "c", "[features]": "title=1.0,price=0.0"}, {"id": 4, "[features]": ""}),
    ),
    (
        "bed",
        {
            "grouped": {
                "x": {
                    "matches": 1,
                    "groups": [
                        {"groupValue": "y", "doclist": {"docs": [{"id": "e", "[features]": "title=1"}]}}
                    ],
                }
            }
        },
    ),
    (["rug", "oven"], {"responses": [answer(hit("a", title=1)), solr({"id": "c", "[features]": "price=2"})]}),
]
VALUES = [
    None,
    True,
    0,
    -1,
    2.5,
    10**400,
    float("nan"),
    float("inf"),
    "",
    "a",
    "1_0",
    "x" * 300,
    "\n\0",
    [],
    [1],
    {},
    {"a": 1},
]


def places(tree):
    """Yield the holder and the key of each value of nested answers."""
    for key in range(len(tree)) if isinstance(tree, list) else list(tree):
        yield tree, key
        if isinstance(tree[key], (list, dict)):
            yield from places(tree[key])


@pytest.mark.parametrize("n_cases", [400, pytest.param(10_000, marks=LAW)])
def test_only_readable_errors_come_out_of_damaged_answers(n_cases):
    rng = np.random.default_rng(n_cases)
    errors = []
    for _ in range(n_cases):
        answers = json.loads(json.dumps(REAL))
        for _ in range(rng.integers(1, 4)):
            found = list(places(answers))
            holder, key = found[rng.integers(len(found))]
            change = rng.random()
            if change < 0.3:
                del holder[key]
            elif change < 0.5 and isinstance(holder, list):
                holder.append(json.loads(json.dumps(holder[key])))
            elif change < 0.6 and isinstance(holder, dict):
                holder[str(VALUES[rng.integers(len(VALUES))])] = holder.pop(key)
            else:
                holder[key] = json.loads(json.dumps(VALUES[rng.integers(len(VALUES))]))
        try:
            read_feature_log(answers, JUDGED, unmatched="missing")
        except BadInput as error:
            errors.append(str(error))
    assert n_cases / 4 < len(errors) < n_cases
    assert all(map(str.isprintable, errors))
