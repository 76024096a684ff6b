"""Dialects: hand-written requests and answers, as documented by OpenSearch, Elasticsearch and Solr."""

import json
import re
from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from structsvm.live.engines import Engine
from structsvm.live.engines.answers import UnusableAnswer, label_of
from structsvm.live.engines.engine import engine_hashes, engines_of
from tests.refusing import refused

OPENSEARCH = {
    "took": 7,
    "timed_out": False,
    "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
    "hits": {
        "total": {"value": 10000, "relation": "gte"},
        "max_score": 3.1,
        "hits": [
            {"_index": "shop", "_id": "a", "_score": 3.1, "_source": {"sku": "s-a", "title": "lamp"}},
            {
                "_index": "shop",
                "_id": "b",
                "_score": 2.0,
                "_source": {"sku": "s-b"},
                "highlight": {"title": ["<em>lamp</em>"]},
            },
        ],
    },
    "aggregations": {
        "brand": {
            "doc_count_error_upper_bound": 0,
            "sum_other_doc_count": 0,
            "buckets": [{"key": "x", "doc_count": 3}],
        }
    },
    "suggest": {"s": [{"text": "lmap", "offset": 0, "length": 4, "options": []}]},
    "ext": {"ubi": {"query_id": "engine-made", "client": "c"}},
}
SOLR = {
    "responseHeader": {"zkConnected": True, "status": 0, "QTime": 3, "params": {"json": "{...}"}},
    "response": {
        "numFound": 32,
        "start": 0,
        "numFoundExact": True,
        "maxScore": 2.5,
        "docs": [{"id": "a", "name": "lamp", "score": 2.5}, {"id": "b", "score": 1.5}],
    },
    "facets": {"count": 32, "brand": {"buckets": [{"val": "x", "count": 3}]}},
    "highlighting": {"a": {"name": ["<em>lamp</em>"]}, "b": {}},
    "spellcheck": {"suggestions": [], "collations": []},
}


def engine(kind, **more):
    return Engine.of(
        "e", {"kind": kind, "url": "http://127.0.0.1:9200/shop/_search", **more}, {"SECRET": "s"}
    )


ES, OS = "elasticsearch", "opensearch"
REQUESTS = [
    (kind, json.loads(body), said)
    for kind, body, said in (
        line.split(" | ")
        for line in Path(__file__).with_name("requests.txt").read_text().splitlines()
        if line and not line.startswith("#")
    )
]


@pytest.mark.parametrize(("kind", "body", "said"), REQUESTS)
def test_what_is_known_is_merged_and_anything_else_is_productions(kind, body, said):
    dialect = engine(kind).dialect
    query = dialect.read(body)
    if said.startswith("["):
        assert [query.first, query.size, query.text] == json.loads(said)
        said = None
        for first, size in ((0, 10), (10, 5), (0, 15), (0, 0)):
            again = dialect.read(dialect.body(body, first, size, lean=False))
            assert (again.first, again.size) == (first, size)
    assert query.reason == said


@pytest.mark.parametrize(
    ("kind", "address", "reason"),
    [
        (OS, "size=4&from=4&routing=7&preference=_local", None),
        (OS, "size=1&size=2", "parameter:twice"),
        *(
            (OS, f"{name}=x", f"parameter:{name}")
            for name in (
                "sort",
                "scroll",
                "q",
                "filter_path",
                "x",
                "search_pipeline",
                "explain",
                "search_type",
                "stats",
            )
        ),
        ("solr", "wt=json&fl=id", None),
        ("solr", "fl=[explain]", "fl:transformer"),
        ("solr", "wt=xml", "param:wt"),
        ("solr", "sort=price+asc", "parameter:sort"),
        ("http", "a=b", "parameter:a"),
    ],
)
def test_parameters_of_the_address(kind, address, reason):
    assert engine(kind).dialect.read({}, parse_qsl(address)).reason == reason


@pytest.mark.parametrize(
    ("kind", "body", "name"),
    [
        (OS, {"sid": 1}, "sid"),
        (OS, {"query": {"term": {"a": 1, "_name": "n"}}}, "_name"),
        (OS, {"ext": {"sid": {}}}, "sid"),
        (ES, {"retriever": {"standard": {"query": {}, "sid": 1}}}, "sid"),
        ("solr", {"params": {"sid": 7}}, "sid"),
        ("http", {"sid": "7"}, "sid"),
    ],
)
def test_a_site_may_say_what_leaves_the_order_to_the_rankers(kind, body, name):
    one = engine(kind, also=[name])
    assert (engine(kind).dialect.read(body).reason or "").endswith(f":{name}")
    assert one.dialect.read(body, (), one.also).reason is None
    assert one.hash() == engine(kind).hash()


def test_labels_of_figures_are_few():
    """Reasons that carry a client's own name count as "other"."""
    said = ["key:sort", "key:sid", "page", "count:size", "parameter:twice", "method:HEAD", "hit:x"]
    expected = ["key:sort", "key:other", "page", "count:size", "parameter:twice", "method:HEAD", "hit:other"]
    assert [label_of(reason) for reason in said] == expected


@pytest.mark.parametrize("value", [-1, 10_001, 1.5, "x", "-1", True, [3], "9" * 5000])
@pytest.mark.parametrize(("kind", "name"), [("opensearch", "size"), ("solr", "limit"), ("http", "from")])
def test_invalid_page_parameters_are_refused(kind, name, value):
    refused(name if kind != "solr" else "limit", engine(kind).dialect.read, {name: value})


def test_production_gets_the_clients_body_and_a_challenger_only_what_ranks():
    body = {
        "query": {"match": {"title": "lamp"}},
        "post_filter": {"term": {"b": 1}},
        "aggs": {"x": {}},
        "suggest": {},
        "ext": {"ubi": {"user_query": "lamp"}},
    }
    one = engine("opensearch")
    query = one.dialect.read(body)
    assert one.request(body, query, 0, 10, lean=False) == {**body, "from": 0, "size": 10}
    lean = {"query": body["query"], "post_filter": body["post_filter"]}
    assert one.request(body, query, 0, 10, lean=True) == {
        **lean,
        "from": 0,
        "size": 10,
        "track_total_hits": False,
    }
    logged = {**body, "ext": {**body["ext"], "ltr_log": {}}}
    assert "ext" not in engine(ES).request(body, query, 0, 10, lean=False)
    assert engine(ES).request(logged, query, 0, 10, lean=False)["ext"] == {"ltr_log": {}}
    plain = [
        engine(kind).dialect.is_plain(one) for kind in (OS, ES) for one in (body, {"ext": {"ltr_log": {}}})
    ]
    assert plain == [True, True, False, True]


def test_solr_bodies():
    one = engine("solr")
    body = {"q": "lamp", "size": 5, "params": {"start": 3, "facet.field": "b", "facet": True, "hl": True}}
    query = one.dialect.read(body)
    whole = {"query": "lamp", "offset": 0, "limit": 5}
    params = {"facet.field": "b", "facet": True, "hl": True}
    assert one.request(body, query, 0, 5, lean=False) == {**whole, "params": params}
    assert one.request(body, query, 0, 5, lean=True) == {**whole, "params": {"hl": True}}
    assert one.request({"query": "x", "facet": {}}, query, 0, 5, lean=True) == {**whole, "query": "x"}


def test_configured_body_is_filled_and_merged():
    rescore = {
        "window_size": 50,
        "query": {"rescore_query": {"sltr": {"params": {"keywords": "{q}"}, "model": "m"}}},
    }
    one = engine("opensearch", body={"rescore": rescore, "query": {"script_score": {"query": "{query}"}}})
    body = {"query": {"match": {"title": "lamp"}}, "ext": {"ubi": {"user_query": "lamp"}}, "size": 3}
    sent = one.request(body, one.dialect.read(body), 0, 3, lean=True)
    assert sent["rescore"]["query"]["rescore_query"]["sltr"]["params"] == {"keywords": "lamp"}
    assert sent["query"]["script_score"] == {"query": {"match": {"title": "lamp"}}}
    with pytest.raises(UnusableAnswer, match="unfilled"):
        one.request({"query": {}}, one.dialect.read({}), 0, 3, lean=True)
    ranker = one.for_ranker({"engine": "e", "body": {"rescore": {"window_size": 7}}, "params": {"p": "x"}})
    assert ranker.body["rescore"] == {**rescore, "window_size": 7}
    assert ranker.params == {"p": "x"}
    assert one.body["rescore"]["window_size"] == 50


@pytest.mark.parametrize(
    ("configured", "left"),
    [
        ({"rescore": {"window_size": 9}}, {"query", "knn", "retriever"}),
        ({"knn": {"k": 9}}, {"query", "rescore", "retriever"}),
        ({"query": {"match_all": {}}}, {"knn", "rescore"}),
        ({"retriever": {"standard": {}}}, set()),
    ],
)
def test_what_a_configured_body_replaces(configured, left):
    """Two queries, or two rescorings, in one object would be refused by the engine."""
    one = engine(ES, body=configured)
    client = {name: {"of": "the client"} for name in ("query", "rescore", "knn", "retriever")}
    sent = one.request(client, one.dialect.read({}), 0, 9, lean=True)
    assert {name: value for name, value in sent.items() if name in client} == {
        **configured,
        **{name: client[name] for name in left},
    }


def test_rankings_of_documented_answers():
    assert list(engine("opensearch").ranking(OPENSEARCH)) == ["a", "b"]
    assert list(engine("opensearch", id="_source.sku").ranking(OPENSEARCH)) == ["s-a", "s-b"]
    assert list(engine("solr").ranking(SOLR)) == ["a", "b"]
    assert list(engine("http").ranking({"documents": ["a", 5, {"id": "c"}]})) == ["a", "5", "c"]


@pytest.mark.parametrize(
    ("kind", "answer", "reason"),
    [
        ("opensearch", {**OPENSEARCH, "timed_out": True}, "partial"),
        ("opensearch", {**OPENSEARCH, "_shards": {"total": 2, "successful": 1, "failed": 1}}, "partial"),
        ("opensearch", {"error": {"type": "x"}, "status": 404}, "junk"),
        ("opensearch", {"hits": {"hits": [{"_id": "a"}, {"_id": "a"}]}}, "id:twice"),
        ("opensearch", {"hits": {"hits": [{"_source": {}}]}}, "id:type"),
        ("opensearch", {"hits": {"hits": ["a"]}}, "id:type"),
        ("opensearch", {"hits": {"hits": [{"_id": True}]}}, "id:type"),
        ("opensearch", {"hits": {"hits": [{"_id": "a"}, {"_id": "x" * 513}]}}, "id:long"),
        ("opensearch", {"hits": {"hits": [{"_id": ""}]}}, "id:empty"),
        ("opensearch", [OPENSEARCH], "junk"),
        (
            "solr",
            {"responseHeader": {"status": 0, "partialResults": True}, "response": {"docs": []}},
            "partial",
        ),
        ("solr", {"error": {"msg": "x", "code": 400}}, "junk"),
        (OS, {**OPENSEARCH, "pit_id": "x"}, "answer:pit_id"),
        (OS, {**OPENSEARCH, "ext": {"rerank": 1}}, "answer:rerank"),
        *(
            (OS, {"hits": {"hits": [{"_id": "a", name: 1}]}}, f"hit:{name}")
            for name in ("sort", "inner_hits", "matched_queries", "_explanation", "new")
        ),
        (OS, {"hits": {"hits": [{"_id": "a", "fields": {"_ltrlog": []}}]}}, "hit:_ltrlog"),
        *(
            ("solr", {**SOLR, name: 1}, f"answer:{name}")
            for name in ("expanded", "grouped", "nextCursorMark", "debug")
        ),
        ("solr", {"response": {"docs": [{"id": "a", "[features]": "b=1"}]}}, "hit:transformer"),
        ("http", {"documents": {"a": 1}}, "junk"),
        ("http", {"documents": [["a"]]}, "id:type"),
        ("http", None, "junk"),
    ],
)
def test_answers_without_a_ranking(kind, answer, reason):
    with pytest.raises(UnusableAnswer) as caught:
        engine(kind).ranking(answer)
    assert caught.value.reason == reason


def test_ids_are_as_long_as_those_of_elasticsearch():
    assert list(engine("opensearch").ranking({"hits": {"hits": [{"_id": "x" * 512}]}})) == ["x" * 512]
    assert [label_of(f"id:{fault}") for fault in ("long", "empty", "type", "twice")] == [
        "id:long",
        "id:empty",
        "id:type",
        "id:twice",
    ]


def test_merged_opensearch_keeps_production_and_does_not_tell_who_found_a_hit():
    before = json.dumps(OPENSEARCH)
    chosen = [{"_index": "shop", "_id": "c", "_score": 9.0}, OPENSEARCH["hits"]["hits"][1]]
    merged = engine("opensearch").dialect.merge(OPENSEARCH, [], chosen, ["c", "b"], 0)
    assert merged["hits"]["hits"] == [
        {"_index": "shop", "_id": "c", "_score": None},
        {**chosen[1], "_score": None},
    ]
    assert merged["hits"]["total"] == OPENSEARCH["hits"]["total"]
    assert merged["hits"]["max_score"] is None
    for name in ("aggregations", "suggest", "took"):
        assert merged[name] == OPENSEARCH[name]
    named = engine("opensearch").dialect.named(merged, "token")
    assert named["ext"] == {"ubi": {"query_id": "token", "client": "c"}}
    assert json.dumps(OPENSEARCH) == before


def test_merged_solr_takes_the_highlighting_of_what_is_shown():
    other = {"response": {"docs": []}, "highlighting": {"c": {"name": ["new"]}, "a": {"name": ["other"]}}}
    merged = engine("solr").dialect.merge(
        SOLR, [other], [{"id": "c", "score": 9.0}, {"id": "a", "name": "lamp", "score": 2.5}], ["c", "a"], 6
    )
    assert merged["response"]["docs"] == [{"id": "c"}, {"id": "a", "name": "lamp"}]
    assert (merged["response"]["numFound"], merged["response"]["start"]) == (32, 6)
    assert "maxScore" not in merged["response"]
    assert merged["highlighting"] == {"c": {"name": ["new"]}, "a": {"name": ["<em>lamp</em>"]}}
    assert merged["facets"] == SOLR["facets"]
    assert engine("solr").dialect.named(merged, "token")["ubi"] == {"query_id": "token"}
    assert SOLR["response"]["maxScore"] == 2.5


def test_merged_plain_answers_are_ids_where_production_has_ids():
    dialect = engine("http").dialect
    chosen = [{"id": "c"}, {"id": 5}]
    merged = dialect.merge({"documents": ["a", 5], "n": 2}, [], chosen, ["c", "5"], 0)
    assert dialect.named(merged, "t") == {"documents": ["c", 5], "n": 2, "query_id": "t"}
    objects = dialect.merge({"documents": [{"id": "a"}]}, [], chosen, ["c", "5"], 0)
    assert objects == {"documents": chosen}


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"kind": "lucene", "url": "http://h/"}, "kind='lucene'"),
        ({"kind": "solr", "url": "file:///etc/passwd"}, "expected an http or https address"),
        ({"kind": "solr", "url": "http://"}, "expected an http or https address"),
        ({"kind": "solr", "url": 3}, "url=3: expected `str`"),
        ({"kind": "solr", "url": "http://u:p@h/"}, "use headers_env"),
        ({"kind": "solr", "url": "http://h/", "adress": ""}, "adress='': expected one of kind, url"),
        ({"kind": "solr", "url": "http://h/", "headers_env": {"Authorization": "NO"}}, "NO is not set"),
        ({"kind": "solr", "url": "http://h/", "headers": {"A": 3}}, "headers={'A': 3}: expected `str`"),
        ({"kind": "solr", "url": "http://h/", "timeout_s": 0}, "timeout_s"),
        ({"kind": "solr", "url": "http://h/", "id": 3}, "id=3: expected `str | null`"),
        ({"kind": "solr", "url": "http://h/", "body": []}, "body=[]: expected `object`"),
        ("http://h/", "engines.shop: expected `object`, got `str`"),
    ],
)
def test_bad_configuration(table, said):
    refused(re.escape(said), engines_of, {"shop": table})


def test_secrets_come_from_the_environment():
    one = engine("opensearch", headers={"X-A": "1"}, headers_env={"Authorization": "SECRET"})
    assert one.headers == {"X-A": "1", "Authorization": "s"}


def test_engines_of_an_experiment():
    tables = {
        "a": {"kind": "solr", "url": "http://127.0.0.1/a"},
        "b": {"kind": "http", "url": "http://127.0.0.1/b"},
    }
    engine_hashes({"old": {"engine": "a"}, "new": {"engine": "a", "body": {"params": {"rq": "x"}}}}, tables)
    for engines, said in [
        ({"old": {"engine": "a"}, "new": {"engine": "b"}}, "one kind"),
        ({"old": {"engine": "c"}}, "no engine 'c'"),
        ({"old": {"engine": "a", "url": "http://169.254.169.254/"}}, "expected one of engine, body"),
        ({"old": {"engine": "a", "headers": {}}}, "headers={}: expected one of"),
        ({"old": {"engine": "a", "params": {"x": 1}}}, "expected `str`, got `int`"),
        ({"old": "a"}, "expected"),
    ]:
        refused(re.escape(said), engine_hashes, engines, tables)
