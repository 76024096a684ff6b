"""Feature logs of engines: contents, and errors that name the query and document."""

import json

import numpy as np
import pytest

from structsvm.readers import Qrels, read_feature_log
from tests.refusing import rejected, rejections


def hit(document, **values):
    entries = [{"name": name} | ({} if value is None else {"value": value}) for name, value in values.items()]
    return {"_id": document, "_score": 1.0, "fields": {"_ltrlog": [{"features": entries}]}}


def answer(*hits):
    return {"took": 1, "hits": {"hits": list(hits)}}


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
    data = read_feature_log([("q", {"response": {"docs": documents}})], unmatched="missing")
    assert data.feature_names == ("a", "b(x=y)")
    np.testing.assert_array_equal(data.X, [[1.0, 0.5], [np.nan, 1e-7]])
    assert data.docid.tolist() == ["1", "2"]


test_what_is_refused = rejections(
    lambda answers, options: read_feature_log(answers, **{"unmatched": "zero", **options}),
    ([("q", answer({"_id": "a"}))], {}, "query q, document a: expected fields._ltrlog with 'features', got "),
    ([("q", {"response": {"docs": [{"id": 3}]}})], {}, r"query q, document 3: expected \[features\]"),
    ([("q", {"error": 1})], {}, "query q: expected an answer with hits or response"),
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
