"""The proxy in front of a real engine, and the service behind a real nginx; skipped where they are not installed."""

import contextlib
import gzip
import json
import os
import random
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import uuid
from pathlib import Path

import httpx
import pytest

from structsvm.cli import main
from tests.live.processes import free_port, wait_until

FUZZED = int(os.environ.get("STRUCTSVM_FUZZED_SEARCHES", "400"))
"""Requests of the fuzz test."""

_TEXT = "lamp table chair sofa red blue green wood steel glass cheap luxury small large round desk bed"
WORDS = _TEXT.split()


@pytest.fixture(scope="module")
def engine():
    """Yield the address of an index of 400 products in an engine with OpenSearch's API."""
    server = pytest.importorskip("osmem_server", reason="needs an engine: pip install osmem-server")
    rng = random.Random(1)
    with server.OsmemServer.start(addr="127.0.0.1:0") as running, httpx.Client(timeout=120) as http:
        kinds = {"title": "text", "body": "text", "price": "float", "cat": "keyword", "pop": "integer"}
        properties = {name: {"type": kind} for name, kind in kinds.items()}
        http.put(f"{running.url}/products", json={"mappings": {"properties": properties}}).raise_for_status()
        lines = []
        for k in range(400):
            title, body = (" ".join(rng.choices(WORDS, k=n)) for n in (4, 30))
            lines.append({"index": {"_index": "products", "_id": f"p{k}"}})
            lines.append(
                {
                    "title": title,
                    "body": body,
                    "price": round(rng.random() * 100, 2),
                    "cat": rng.choice(WORDS[:5]),
                    "pop": rng.randrange(1000),
                }
            )
        lines[1]["title"] = "lamp \ud83d"  # an emoji that was cut in two
        bulk = "".join(json.dumps(line) + "\n" for line in lines)
        http.post(
            f"{running.url}/_bulk?refresh=true",
            content=bulk,
            headers={"content-type": "application/x-ndjson"},
        ).raise_for_status()
        yield f"{running.url}/products/_search"
        running.close()
        running.process.stdout.close()


POPULAR = {
    "query": {
        "function_score": {
            "query": "{query}",
            "boost_mode": "replace",
            "field_value_factor": {"field": "pop"},
        }
    }
}


class Site:
    """Searches by the proxy and by the engine itself."""

    def __init__(self, client, engine, direct):
        self.client, self.engine, self.direct = client, engine, direct
        client.proxy.budget_s = 20.0

    def create(self, **config):
        used = {"old": {"engine": "shop"}, "new": {"engine": "shop-new"}}
        self.client.create("shop", rankers=list(used), engines=used, **config)

    def search(self, body=None, *, method="POST", path="", content=None, headers=None, search=None):
        headers = {"content-type": "application/json", **(headers or {})}
        if search is not None:
            headers["x-structsvm-search"] = search
        content = json.dumps(body).encode() if content is None else content
        answer = self.client.request(method, f"/v1/search/shop{path}", content=content, headers=headers)
        own = {name: value for name, value in headers.items() if not name.startswith("x-structsvm")}
        address = self.engine + path.removeprefix("/_search")
        try:
            expected = self.direct.request(method, address, content=content, headers=own)
        except httpx.HTTPError as error:
            raise AssertionError((repr(error), method, address, content[:300], own)) from None
        return answer, expected


@pytest.fixture
def site(engine, open_client):
    table = {"kind": "opensearch", "url": engine}
    limits = httpx.Limits(max_keepalive_connections=0)
    with (
        open_client(engines={"shop": table, "shop-new": {**table, "body": POPULAR}}) as client,
        httpx.Client(timeout=60, limits=limits) as direct,
    ):
        yield Site(client, engine, direct)


def ids_of(answer):
    return [hit["_id"] for hit in answer.json()["hits"]["hits"]]


def comparable(answer):
    """Return an answer without times and the ids of cursors."""
    try:
        found = answer.json()
    except ValueError:
        return answer.status_code, answer.content
    if isinstance(found, dict):
        found = {name: value for name, value in found.items() if name not in ("took", "_scroll_id", "pit_id")}
    return answer.status_code, found


def test_pages_lose_no_document_and_show_none_twice(site):
    """With the id of the search, pages form one list; without it, both are production's."""
    site.create()
    rng = random.Random(5)
    for with_id in (True, False):
        for _ in range(25):
            words = " ".join(rng.sample(WORDS, 2))
            body = {"query": {"match": {"body": words}}, "size": 10, "_source": False}
            search = uuid.uuid4().hex if with_id else None
            found, served = [], set()
            for first in (0, 10):
                answer, expected = site.search({**body, "from": first}, search=search)
                found += ids_of(answer)
                served.add(answer.headers["x-structsvm-serve"].partition(";")[0])
                if not with_id:
                    assert ids_of(answer) == ids_of(expected)
            assert len(set(found)) == 20
            assert served == {"interleaved" if with_id else "production"}
            if with_id:  # half of each ranker, so that no good document is lost by the change of the page
                top = ids_of(site.search(body, search=search)[1])
                assert len(set(top[:5]) & set(found)) == 5


# ---- anything that clients send ----------------------------------------------------------------------------------


def any_body(rng):
    words = " ".join(rng.sample(WORDS, 2))
    body = {
        "query": rng.choice(
            [
                {"match": {"title": words}},
                {"multi_match": {"query": words, "fields": ["title", "body"]}},
                {"match_all": {}},
                {"bool": {"must": {"match": {"body": words}}, "filter": {"term": {"cat": "red"}}}},
                {"match": {"title": "none of it"}},
                {"nope": {}},
                {"ids": {"values": ["p1", "p7"]}},
                {},
            ]
        )
    }
    more = [
        ("size", lambda: rng.choice([0, 1, 3, 10, 25, 100, 150, -1, 5.0, "4", "x", True, None, 10**6, 1e3])),
        ("from", lambda: rng.choice([0, 5, 10, 95, 9_999, -3, 2.5, "6", None])),
        (
            "sort",
            lambda: rng.choice(
                ["price", [{"price": "asc"}], ["_score"], [{"_score": "asc"}], "nope", [], None]
            ),
        ),
        ("aggs", lambda: {"c": {"terms": {"field": rng.choice(["cat", "title"])}}}),
        ("highlight", lambda: {"fields": {"title": {}}}),
        ("_source", lambda: rng.choice([False, ["title"], "pop", {"excludes": ["body"]}])),
        ("collapse", lambda: {"field": "cat"}),
        ("search_after", lambda: [1]),
        ("min_score", lambda: 0.5),
        ("post_filter", lambda: {"term": {"cat": "red"}}),
        ("explain", lambda: True),
        ("track_total_hits", lambda: False),
        ("suggest", lambda: {"s": {"text": "lmap", "term": {"field": "title"}}}),
        ("stored_fields", lambda: "_none_"),
        ("pit", lambda: {"id": "abc"}),
        ("unknown", lambda: {"a": 1}),
        ("profile", lambda: True),
        ("rescore", lambda: {"window_size": 10, "query": {"rescore_query": {"match": {"title": "red"}}}}),
        ("ext", lambda: {"other": {}}),
    ]
    for name, value in rng.sample(more, rng.choice([0, 0, 1, 1, 2, 3])):
        body[name] = value()
    return body


def any_content(rng):
    text = json.dumps(any_body(rng))
    kind = rng.random()
    if kind < 0.75:
        return text.encode()
    return rng.choice(
        [
            b"",
            b"{",
            b"[]",
            b"null",
            b"3",
            b'"x"',
            b"\xff\xfe",
            text.encode()[:-1],
            text.encode() + b"}",
            b'{"size": 1, "size": 2}',
            b'{"size": NaN}',
            b'{"min_score": 1e400}',
            text.encode("utf-16"),
            b'{"index": "products"}\n' + text.encode() + b"\n",
            b"\xef\xbb\xbf" + text.encode(),
            text.replace("{", "{ /* a comment */ ", 1).encode(),
            b"[" * 2000,
            json.dumps({"query": {"terms": {"_id": [f"p{k}{'x' * 20}" for k in range(12_000)]}}}).encode(),
            json.dumps({"query": {"match": {"title": "lamp \ud83d"}}}).encode(),
            b'{"query": {"match_all": {}}}\n\n',
        ]
    )


def any_path(rng):
    suffix = rng.choice(["", "", "", "/_search"])
    names = [
        "size=3",
        "from=5",
        "size=0",
        "size=x",
        "sort=price:asc",
        "q=title:red",
        "routing=x",
        "preference=_local",
        "typed_keys=true",
        "filter_path=hits.total",
        "pretty=true",
        "_source=title",
        "track_total_hits=true",
        "request_cache=true",
        "a=%F0%9F%98%80",
        "x",
        "=",
        "size=3&size=4",
        "rest_total_hits_as_int=true",
        "format=yaml",
        "search_type=dfs_query_then_fetch",
        "timeout=1s",
        "explain=true",
        "scroll=1m",
        "source=%7B%7D",
        "a=%zz",
    ]
    chosen = rng.sample(names, rng.choice([0, 0, 0, 1, 1, 2]))
    return suffix + ("?" + "&".join(chosen) if chosen else "")


def any_headers(rng):
    headers = {}
    if rng.random() < 0.15:
        kinds = ["text/plain", "application/json; charset=UTF-8", "application/x-ndjson", "application/yaml"]
        headers["content-type"] = rng.choice([*kinds, "", "x"])
    if rng.random() < 0.3:
        units = ["Jörg".encode("latin-1"), b"a b", b"u" * 300, b"u1", "é".encode()]
        headers["x-structsvm-unit"] = rng.choice(units)
    if rng.random() < 0.2:
        headers["accept"] = rng.choice(["application/json", "*/*", "text/html", "application/yaml"])
    if rng.random() < 0.1:
        headers["x-request-id"] = "id1, id2"
    return headers


@pytest.mark.slow
def test_where_production_is_served_the_answer_is_the_engines_own(site):
    """No request of a client causes an internal error."""
    site.create(share=0.8)
    rng = random.Random(int(os.environ.get("STRUCTSVM_FUZZ_SEED", "0")))
    served: dict[str, int] = {}
    for k in range(FUZZED):
        content, path, headers = any_content(rng), any_path(rng), any_headers(rng)
        if rng.random() < 0.1:
            content = rng.choice([gzip.compress(content), b"xx", gzip.compress(content)[:-5]])
            headers["content-encoding"] = "gzip"
        method = rng.choice(["POST", "POST", "POST", "GET"])
        search = rng.choice([None, f"s{k}", "r" * 300, "a b"]) if rng.random() < 0.7 else f"s{k % 50}"
        request = {"method": method, "path": path, "content": content, "headers": headers}
        answer, expected = site.search(**request, search=search)
        serve = answer.headers.get("x-structsvm-serve")
        said = (method, path, headers, content[:300], serve, answer.status_code, answer.text[:200])
        assert serve is not None, said
        served[serve] = served.get(serve, 0) + 1
        found, wanted = comparable(answer), comparable(expected)
        if serve.endswith("why=control"):
            assert found[1].pop("ext")["ubi"]["query_id"], said
        if serve.startswith("production"):
            assert found == wanted, (k, said)
            for name in ("content-type", "content-encoding"):
                if not serve.endswith("why=control"):
                    assert answer.headers.get(name) == expected.headers.get(name), said
        else:
            assert (found[0], wanted[0]) == (200, 200), (said, wanted)
            assert len(found[1]["hits"]["hits"]) == len(wanted[1]["hits"]["hits"]), said
            assert found[1]["hits"].get("total") == wanted[1]["hits"].get("total"), said
            assert found[1].get("aggregations") == wanted[1].get("aggregations"), said
    assert served["interleaved"] > FUZZED / 100, served
    assert len(served) >= 6
    print(served)


# ---- behind nginx ------------------------------------------------------------------------------------------------


NGINX = """
worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log; daemon off;
events {{ worker_connections 64; }}
http {{
  access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port} ssl; ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
{locations}
  }}
}}
"""


@pytest.fixture
def nginx(tmp_path):
    """Start nginx with TLS on loopback, with the locations that a test passes."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    openssl = shutil.which("openssl")
    if program is None or openssl is None:
        pytest.skip("needs nginx and openssl (Debian: apt install nginx-light openssl)")
    started = []

    def start(locations):
        subprocess.run(
            [
                openssl,
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=localhost",
                "-addext",
                "subjectAltName=DNS:localhost,DNS:live.example.org",
                "-keyout",
                str(tmp_path / "key.pem"),
                "-out",
                str(tmp_path / "cert.pem"),
            ],
            check=True,
            capture_output=True,
        )
        port = free_port()
        (tmp_path / "nginx.conf").write_text(NGINX.format(folder=tmp_path, port=port, locations=locations))
        started.append(
            subprocess.Popen([program, "-c", str(tmp_path / "nginx.conf")], stderr=subprocess.DEVNULL)
        )

        def answers():
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return True

        wait_until(answers, said=(tmp_path / "error.log").read_text)
        context = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        return httpx.Client(base_url=f"https://localhost:{port}", verify=context, timeout=60)

    yield start
    for process in started:
        process.terminate()
        process.wait(10)


@pytest.mark.parametrize("keys", [True, False])
def test_behind_nginx_nobody_comes_in_without_a_key(serve, nginx, store_url, keys):
    """Requests without a key are refused for nginx's default host name and the public one, unless keys are disabled."""
    assert main(["live", "init", "--store", store_url]) == 0
    served = serve(keys=keys)
    said = "" if keys else "proxy_set_header X-Forwarded-For $remote_addr;"
    names = ["127.0.0.1", f"127.0.0.1:{served.port}", *(["live.example.org"] if keys else [])]
    with nginx(f"location / {{ proxy_pass http://127.0.0.1:{served.port}; {said} }}") as http:
        for headers in ({"host": name} for name in names):
            assert http.get("/v1/experiments", headers=headers).status_code == 401
            assert http.post("/v1/kill", json={}, headers=headers).status_code == 401
        assert http.get("/livez").status_code == 200
    assert served.call("GET", "/v1/experiments")[0] == (401 if keys else 200)


@pytest.mark.slow
def test_the_deployment_of_the_manual(engine, serve, nginx, tmp_path, capsys):
    """Run the steps of the page in order in an empty folder, up to a click that is counted after a restore."""
    page = (Path(__file__).parents[2] / "docs" / "live.md").read_text()
    sections = [
        re.search(f"^## {name}.*?(?=^## )", page, flags=re.M | re.S)[0] for name in ("Deployment", "Backup")
    ]
    places = {
        "/etc/structsvm": f"{tmp_path}/etc",
        "/var/lib/structsvm": f"{tmp_path}/var",
        "9200/products/_search": "ENGINE",
        "http://127.0.0.1:ENGINE": engine,
        '"popularity"': '"pop"',
        "share = 0.2": "share = 1.0\nwindow_s = 15",
    }
    (tmp_path / "etc").mkdir()
    keys, started, found = {}, [], {}

    def step(line):
        words = shlex.split(line)
        if words[:2] == ["sudo", "install"]:
            Path(words[-1]).mkdir()
        elif "/opt/structsvm/bin/structsvm" in words[:4]:
            assert main(words[words.index("live") :]) == 0
            said = capsys.readouterr().out.strip()
            if said.startswith("sk_"):
                keys[words[words.index("--scope") + 1] if "--scope" in words else "admin"] = said
        elif words[:2] == ["sudo", "systemctl"]:
            {"stop": started[0].stop, "start": started[0].start}[words[2]]()
        elif words[:3] == ["sudo", "-u", "structsvm"]:
            subprocess.run(words[3:], check=True)
        elif words[0] == "curl":
            for scope in ("show", "read"):
                line = line.replace(f"{scope.upper()}_KEY", keys.get(scope, ""))
            line = line.replace(":8808", f":{started[0].port}")
            arguments = [word for word in shlex.split(line)[1:] if word != "-i"]  # the body only
            command = ["curl", "--silent", "--fail-with-body", *arguments]
            name = next(word for word in words if word.startswith("http")).rpartition("8808")[2]

            def answered():
                done = subprocess.run(command, capture_output=True, text=True)
                found[name] = done.stdout
                return not done.returncode and ("search" not in name or "ext" in json.loads(found[name]))

            # the key may be too new, and a busy machine may keep the challenger waiting
            wait_until(answered, said=lambda: f"{command}: {found[name]}")
        else:
            assert words[1] in ("python3", "/opt/structsvm/bin/pip", "useradd"), line

    def click():
        token = json.loads(found["/v1/search/shop"])["ext"]["ubi"]["query_id"]
        locations = "\n".join(re.findall(r"^    location .*?^    }$", page, flags=re.M | re.S))
        with nginx(locations.replace("127.0.0.1:8808", f"127.0.0.1:{started[0].port}")) as http:
            public = {"host": "live.example.org", "origin": "https://shop.example.org"}
            answer = http.post("/v1/clicks", json={"events": [{"token": token, "place": 1}]}, headers=public)
            assert answer.json()["accepted"] == 1, answer.json()
            assert answer.headers["access-control-allow-origin"] == public["origin"]
            assert http.get("/client.js", headers=public).status_code == 200
            known = {**public, "authorization": f"Bearer {keys['admin']}"}  # nobody reaches anything else
            for path in ("/", "/v1/experiments", "/metrics", "/readyz", "/v1/clicks/../experiments"):
                assert http.get(path, headers=known).status_code == 404
        wait_until(lambda: json.loads(fetched("/v1/experiments/shop/report")).get("n_clicked"))

    def fetched(path):
        key = {"authorization": f"Bearer {keys['read']}"}
        return httpx.get(f"http://127.0.0.1:{started[0].port}{path}", headers=key, timeout=60).text

    for section in sections:
        for kind, code in re.findall(r"^```(\w+)\n(.*?)^```$", section, flags=re.M | re.S):
            for old, new in places.items():
                code = code.replace(old, new)
            if kind == "toml":
                Path(code.split()[1]).write_text(code)
            elif kind == "ini":
                words = shlex.split(re.search("ExecStart=.* serve (.*)", code)[1])
                store = words.pop(words.index("--store") + 1)
                options = [word for word in words if word not in ("--store", "--workers", "2")]
                started.append(serve(store, workers=2, keys=True, options=options))
            elif kind == "nginx":
                click()
            elif kind == "sh":
                for line in code.splitlines():
                    step(line)
    assert json.loads(found["/readyz"])["ready"]
    assert "structsvm_live_shown_total" in found["/metrics"]
    assert json.loads(fetched("/v1/experiments/shop/report"))["n_clicked"] == 1
    assert list((tmp_path / "var" / "backups").iterdir())
