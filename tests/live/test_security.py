"""Permissions, and inputs that must not cause harm."""

import asyncio
import base64
import contextlib
import json
import random
import socket
import string
from urllib.parse import quote

import numpy as np
import pytest

from structsvm.cli import main
from structsvm.live.contract import bodies
from structsvm.live.contract.keys import Keys, new_key
from structsvm.live.contract.rate_limit import RateLimit
from structsvm.live.contract.settings import Settings
from structsvm.live.contract.tokens import Secrets, Token, hashed_unit
from structsvm.live.store.backups import Backups
from structsvm.live.store.opening import open_database, prepare
from structsvm.online.bandits import NAMES
from tests.live.samples import RANKINGS
from tests.refusing import rejected

ONE = "/v1/experiments/e"


# ---- tokens ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def token(client):
    """Return the token of a list that was shown to the client."""
    client.create()
    return client.show("r1")[1]["token"]


def test_tokens_that_are_not_ours(client, token):
    forged = [
        "",
        token[:-1],
        token + "A",
        token[:30],
        token[::-1],
        token.swapcase(),
        "A" * 60,
        "é" * 60,
        None,
        5,
        [token],
        {"t": token},
        True,
    ]
    raw = base64.urlsafe_b64decode(token)
    for k in range(len(raw)):  # any byte changed
        forged.append(base64.urlsafe_b64encode(raw[:k] + bytes((raw[k] ^ 1,)) + raw[k + 1 :]).decode())
    for bad in forged:
        status, answer = client.click({"token": bad, "place": 1})
        assert (status, answer["error"]["code"]) == (403, "bad_token"), bad
    status, answer = client.click({"place": 1}, 7)
    assert status == 403


def test_a_token_of_another_service(client, token):
    known = client.service.secrets.read(token)
    other = Secrets([b"another secret, which is as long as it must be"])
    assert client.click({"token": other.token(known), "place": 1})[0] == 403
    # of the same secret but another store: signed, and yet nothing to click on
    for absent in (known._replace(impression=bytes(16)), known._replace(experiment=99)):
        answer = client.click({"token": client.service.secrets.token(absent), "place": 1})[1]
        assert answer["error"]["code"] == "unknown_impression"


@pytest.mark.parametrize(
    ("event", "code"),
    [
        ({"place": 0}, "bad_place"),
        ({"place": 11}, "bad_place"),
        ({"place": True}, "bad_place"),
        ({"place": "1"}, "bad_place"),
        ({"place": 1.0}, "bad_place"),
        ({"place": -1}, "bad_place"),
        ({"place": 10**30}, "bad_place"),
        ({}, "bad_document"),
        ({"document": 3}, "bad_document"),
        ({"document": "none"}, "bad_document"),
        ({"place": 1, "document": "d1"}, "bad_place"),
        ({"place": 1, "action": "buy"}, "bad_action"),
        ({"place": 1, "action": ["click"]}, "bad_action"),
        ({"place": 1, "dwell_s": -1}, "bad_dwell"),
        ({"place": 1, "dwell_s": "1"}, "bad_dwell"),
        ({"place": 1, "dwell_s": 10**400}, "bad_dwell"),
    ],
)
def test_what_a_click_must_be(client, token, event, code):
    status, answer = client.click({"token": token, **event})
    assert (status, answer["error"]["code"]) == (422, code)
    # a good one beside it is taken
    status, answer = client.click({"token": token, **event}, {"token": token, "place": 2})
    assert (status, answer["accepted"], answer["rejected"]) == (200, 1, [{"index": 0, "code": code}])


def test_secrets_can_be_changed(client, token, open_client):
    path = client.service.settings.secret_path
    path.write_text("0123456789abcdef" * 4 + "\n" + path.read_text())
    with open_client() as renewed:
        client.wait_until(lambda: renewed.click({"token": token, "place": 1})[0] == 200)  # 503: a busy store
        fresh = renewed.show("r2")[1]["token"]
        assert client.click({"token": fresh, "place": 1})[0] == 403  # it has not read the new one
    assert path.stat().st_mode & 0o077 == 0


def test_tokens_keep_what_they_say():
    rng = random.Random(0)
    signer = Secrets([b"a" * 64, b"b" * 100])
    for _ in range(200):
        token = Token(rng.randrange(2**32), rng.randrange(2**16), rng.randrange(2**48), rng.randbytes(16))
        assert signer.read(signer.token(token)) == token
        assert len(signer.token(token)) <= 100  # fits a UBI query_id


# ---- the frame -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "hosts"),
    [
        (421, ["evil.example", "127.0.0.1.evil.example", "", "localhost.", "[::2]", "evil@127.0.0.1"]),
        (200, ["127.0.0.1", "127.0.0.1:8808", "localhost:1", "LOCALHOST", "[::1]:5", "[::1]"]),
    ],
)
def test_only_own_host_names_are_answered(client, status, hosts):
    for host in hosts:
        assert client.request("GET", "/client.js", headers={"host": host}).status_code == status, host


def test_headers_of_every_answer(client):
    for path in ("/livez", "/v1/experiments", "/none", "/v1/experiments/none/report"):
        headers = client.request("GET", path).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "script-src" not in headers["content-security-policy"]  # and so only own files
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers


def test_cors_is_for_clicks_of_listed_sites(open_client):
    with open_client(origins=("https://shop.example",)) as client:
        client.create()
        body = json.dumps({"events": [{"token": client.show("r1")[1]["token"], "place": 1}]})
        for origin in ("https://shop.example", "https://evil.example", "null"):
            allowed = origin == "https://shop.example"
            # as navigator.sendBeacon does it: text, no preflight
            answer = client.request(
                "POST",
                "/v1/clicks",
                content=body,
                headers={"origin": origin, "content-type": "text/plain;charset=UTF-8"},
            )
            assert ("access-control-allow-origin" in answer.headers) == allowed
            asked = {"origin": origin, "access-control-request-method": "POST"}
            assert (client.request("OPTIONS", "/v1/clicks", headers=asked).status_code == 204) == allowed
            # the rest is not for other sites at all
            answer = client.request("OPTIONS", f"{ONE}/show", headers=asked)
            assert "access-control-allow-origin" not in answer.headers


def test_a_page_of_another_site_changes_nothing(client):
    client.create()
    headers = {"origin": "https://evil.example", "content-type": "text/plain"}
    for method, path, body in (
        ("POST", f"{ONE}/state", {"to": "killed"}),
        ("POST", "/v1/kill", {}),
        ("PUT", ONE, {"rankers": ["a", "b"]}),
        ("POST", f"{ONE}/show", {"request_id": "x", "rankings": RANKINGS}),
    ):
        assert client.call(method, path, body, headers=headers)[0] == 403
    assert client.call("GET", ONE)[1]["state"] == "running"


def test_a_browser_that_remembers_a_key_is_not_used_by_others(keyed):
    client, texts = keyed
    for origin, status in (("https://evil.example", 403), ("https://ranker.example", 200)):
        headers = basic(f":{texts['admin']}") | {"origin": origin}
        assert client.call("POST", "/v1/kill", {}, headers=headers)[0] == status


def test_bodies_that_are_too_large(client):
    client.create()
    odd = {"content-length": "x"}
    assert client.request("POST", "/v1/clicks", content=b" " * 300_000).status_code == 413
    assert client.request("POST", "/v1/clicks", content=b"{}", headers=odd).status_code == 413

    async def stream():
        for _ in range(40):
            yield b" " * 10_000

    answer = client.run(client.http.post("http://127.0.0.1/v1/clicks", content=stream()))
    assert answer.status_code == 413
    deep = "[" * 100_000 + "]" * 100_000
    assert client.request("POST", "/v1/clicks", content=deep).status_code == 422
    number = '{"events": ' + "9" * 100_000 + "}"
    assert client.request("POST", "/v1/clicks", content=number).status_code == 422


# ---- keys ------------------------------------------------------------------------------------------------------------


FOR_ALL = {"keyless": False, "host": "0.0.0.0", "allowed_hosts": ("ranker.example",)}
HOST = {"host": "ranker.example"}


def bearer(text):
    return {**HOST, "authorization": f"Bearer {text}"}


def basic(text):
    return {**HOST, "authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}


def keys_of(store_url, *scopes):
    """Make a store with a key of each scope; return their texts."""
    prepare(store_url)
    store, texts = open_database(store_url), {}
    for scope in scopes:
        texts[scope], identity, hashed = new_key(scope)
        store.add_key(identity, hashed, scope, 1)
    store.close()
    return texts


@pytest.fixture
def keyed(open_client, store_url):
    texts = keys_of(store_url, "show", "click", "read", "admin")
    with open_client(**FOR_ALL) as client:
        yield client, texts


CALLS = [
    ("PUT", ONE, {"rankers": ["prod", "new"]}, "admin", 201),
    ("POST", f"{ONE}/state", {"to": "running"}, "admin", 200),
    ("POST", f"{ONE}/show", {"request_id": "r", "rankings": RANKINGS}, "show", 200),
    ("POST", f"{ONE}/assign", {"request_id": "r"}, "show", 200),
    ("GET", ONE, None, "read", 200),
    ("GET", "/v1/experiments", None, "read", 200),
    ("GET", f"{ONE}/changes", None, "read", 200),
    ("POST", "/v1/kill", {}, "admin", 200),
]


def test_scopes_of_keys(keyed):
    client, texts = keyed
    assert client.request("GET", "/client.js", headers={"host": "10.0.0.1"}).status_code == 421
    for method, path, body, needed, expected in CALLS:
        for scope in (None, "show", "click", "read", "admin"):
            if scope == "admin" and needed != "admin":
                continue
            headers = HOST if scope is None else bearer(texts[scope])
            status, answer = client.call(method, path, body, headers=headers)
            assert status == (expected if scope == needed else 401), (path, scope, answer)
            if path.endswith("changes") and scope == needed:
                assert {change["who"] for change in answer["changes"]} == {texts["admin"].split("_")[1]}
    for bad in (
        texts["admin"][:-1],
        texts["admin"] + "0",
        "sk__",
        "sk_00000000_" + "0" * 48,
        "",
        "x" * 1000,
        texts["admin"].replace("sk_", "sk_f", 1),
    ):
        for kind in ("Bearer", "bearer", "Basic", ""):
            headers = {**HOST, "authorization": f"{kind} {bad}"}
            assert client.call("GET", "/v1/experiments", headers=headers)[0] == 401
    assert client.call("GET", "/v1/experiments", headers=basic(f"anyone:{texts['read']}"))[0] == 200


def test_clicks_need_their_token_only(keyed):
    client, texts = keyed
    for method, path, body, *_ in CALLS[:2]:
        client.call(method, path, body, headers=bearer(texts["admin"]))
    body = {"request_id": "r1", "rankings": RANKINGS}
    show = bearer(texts["show"])
    token = client.call("POST", f"{ONE}/show", body, headers=show)[1]["token"]
    assert client.service.store.delete_key(texts["click"].split("_")[1])
    client.run(client.service.registry.refresh())
    # a key of another scope and the password of a site do no harm; a key that was removed is not passed over
    removed = bearer(texts["click"])
    for headers, expected in ((HOST, 200), (show, 200), (basic("me:secret"), 200), (removed, 401)):
        for path, body in (("clicks", {"events": [{"token": token, "place": 1}]}), ("ubi/events", [])):
            assert client.call("POST", f"/v1/{path}", body, headers=headers)[0] == expected


def test_an_address_that_sends_too_many_clicks_is_slowed_down(open_client, store_url):
    text = keys_of(store_url, "click")["click"]
    body = json.dumps({"events": [{"token": "x" * 60, "place": 1}]})
    with open_client(**FOR_ALL, click_rate=0.3) as client:
        for path, usual in (("/v1/clicks", 403), ("/v1/ubi/events", 200)):
            client.service.click_limit = RateLimit(0.3, clock=lambda: 5.0)
            answers = [client.request("POST", path, content=body, headers=HOST) for _ in range(5)]
            assert [a.status_code for a in answers] == [usual] * 3 + [429] * 2, answers[0].text
            assert answers[4].headers["retry-after"] == "1"
            assert answers[4].json()["error"]["code"] == "too_many"
            # a server that sends the clicks of others has a key
            assert client.request("POST", path, content=body, headers=bearer(text)).status_code == usual


def test_the_rate_in_the_long_run():
    """Whatever the times of calls, an address gets its burst, and then calls at the given rate per second."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        times = np.cumsum(rng.exponential(rng.choice([0.01, 0.1, 1.0]), 400))
        now = iter(times)
        limit = RateLimit(2.0, clock=lambda now=now: float(next(now)))
        taken = [limit.allows("a") for _ in times]
        tokens, before = 20.0, times[0]
        for now, was in zip(times, taken, strict=True):
            tokens, before = min(20.0, tokens + 2.0 * (now - before)), now
            assert was == (tokens >= 1)
            tokens -= was
    assert all(RateLimit(0.0, clock=lambda: 0.0).allows("a") for _ in range(1000))


def test_many_addresses_take_little_memory():
    limit = RateLimit(0.1, clock=lambda: 0.0)
    for k in range(12_000):
        assert limit.allows(str(k))
    assert not limit.allows("11999")
    assert limit.allows("0")  # forgotten


def test_every_call_but_clicks_needs_a_key(open_client):
    """Keys are required on loopback, too: calls forwarded by a reverse proxy come from there, maybe with that name."""
    with open_client(keyless=False) as client:
        for method, path, body, *_ in CALLS:
            assert client.call(method, path, body)[0] == 401, path
        assert client.call("POST", "/v1/search/e", {})[0] == 401
        for path in ("/", "/e/e", "/metrics", f"{ONE}/report", f"{ONE}/export"):
            assert client.request("GET", path).status_code == 401
        assert client.click({"token": "x", "place": 1})[0] == 403
        assert client.request("GET", "/livez").status_code == 200


@pytest.mark.parametrize("name", ["X-Forwarded-For", "Forwarded", "Via", "X-Real-IP", "X-Forwarded-Proto"])
def test_without_keys_what_a_reverse_proxy_passes_on_needs_one(client, name):
    assert client.call("GET", "/v1/experiments")[0] == 200
    assert client.call("GET", "/v1/experiments", headers={name: "1"})[0] == 401
    assert client.call("PUT", ONE, {"rankers": ["a", "b"]}, headers={name: ""})[0] == 401


@pytest.mark.parametrize(
    ("host", "names"), [("0.0.0.0", ()), ("10.0.0.3", ()), ("127.0.0.1", ("live.example",))]
)
def test_only_a_loopback_address_may_do_without_keys(host, names):
    rejected("loopback", Settings, "sqlite:///x.db", host=host, allowed_hosts=names, keyless=True)


def test_headers_that_come_twice_are_refused(client):
    twice = [("host", "127.0.0.1"), ("host", "127.0.0.1")]
    assert client.request("GET", "/livez", headers=twice).status_code == 400
    twice = [("x-forwarded-for", "1"), ("authorization", "Bearer a"), ("authorization", "Bearer b")]
    assert client.request("GET", "/v1/experiments", headers=twice).status_code == 400


def test_serving_without_keys_requires_loopback(store_url, capsys, tmp_path):
    def live(expected, command, *options):
        assert main(["live", *command.split(), "--store", store_url, *options]) == expected
        said = capsys.readouterr()
        return said.err if expected else said.out

    every = ("--host", "0.0.0.0", "--port", "0")
    assert "live init" in live(2, "serve", *every)
    assert "expected only loopback addresses" in live(2, "serve", *every, "--no-keys")
    first = live(0, "init").strip()
    with contextlib.closing(open_database(store_url)) as store:
        assert Keys(store.callers()).allows(f"Bearer {first}", "admin")
    assert {path.stat().st_mode & 0o077 for path in tmp_path.iterdir()} == {0}
    assert "live key add" in live(2, "init")
    live(0, "key remove", first.split("_")[1])
    assert "expected a key, got none" in live(2, "serve", *every)
    live(2, "key add", "--scope", "root")
    text = live(0, "key add", "--scope", "read").split()[-1]
    identity = text.split("_")[1]
    assert text.encode() not in Settings(store_url, keyless=True).sqlite_path.read_bytes()
    listed = live(0, "key list")
    assert identity in listed
    assert "never used" in listed
    live(0, "key remove", identity)
    live(2, "key remove", identity)


# ---- what is kept ----------------------------------------------------------------------------------------------------


def ubi_tokens(client, headers):
    lines = client.request("GET", f"{ONE}/export?format=ubi", headers=headers).text.splitlines()
    return {json.loads(line)["query_id"] for line in lines}


def test_who_only_reads_cannot_send_clicks(keyed):
    """The UBI export contains only closed lists, and tokens only for admin."""
    client, texts = keyed
    of = {scope: bearer(text) for scope, text in texts.items()}
    client.call("PUT", ONE, {"rankers": ["prod", "new"], "window_s": 0.1}, headers=of["admin"])
    client.call("POST", f"{ONE}/state", {"to": "running"}, headers=of["admin"])

    def show(name):
        return client.call(
            "POST", f"{ONE}/show", {"request_id": name, "rankings": RANKINGS}, headers=of["show"]
        )[1]["token"]

    token = show("r1")
    assert ubi_tokens(client, of["read"]) == ubi_tokens(client, of["admin"]) == set()
    client.service.closer._grace = 0
    client.run(asyncio.sleep(0.2))
    client.service.closer.run()
    show("r2")
    assert ubi_tokens(client, of["admin"]) == {token}
    (hashed,) = ubi_tokens(client, of["read"])
    click = {"events": [{"token": hashed, "place": 1}]}
    assert client.call("POST", "/v1/clicks", click, headers=of["read"])[0] == 403


def test_what_was_deleted_is_gone(open_client, store_url, tmp_path):
    """No backup keeps the key of the units of an experiment that has ended; backups are readable only by the owner."""
    folder = tmp_path / "copies"
    with open_client() as client:
        path = client.service.settings.sqlite_path
        client.create("a", share=0.5)
        client.create("b")
        keys = {name: client.row(name).unit_key for name in "ab"}
        client.show("r", "a", unit="anna")
        made = Backups(path, folder, 0.0, 9).make()
        assert (made.stat().st_mode & 0o077, folder.stat().st_mode & 0o077) == (0, 0)
        assert keys["a"] in made.read_bytes()
        client.wait_closed("a")
        row, counted = client.row("a"), client.service.store.counted
        assert counted(row.id, [hashed_unit(row.unit_key, "anna")])  # shares are counted by it
        assert main(["live", "forget", "a", "anna", "--store", store_url]) == 0
        assert not counted(row.id, [hashed_unit(row.unit_key, "anna")])
        client.set_state("stopped", "a")
        Backups(path, folder, 0.0, 9).drop_unit_keys(frozenset({row.id}))
        assert keys["a"] not in made.read_bytes()
        assert keys["b"] in made.read_bytes()
        output = tmp_path / "copy.db"
        assert main(["live", "backup", "--store", store_url, "--output", str(output)]) == 0
        assert output.stat().st_mode & 0o077 == 0
        assert keys["a"] not in output.read_bytes()


def test_an_experiment_that_ended_after_a_copy_is_stopped_there(open_client, tmp_path):
    """Without the key of its units it would show production for ever, but appear to be running."""
    folder = tmp_path / "copies"
    with open_client() as client:
        path = client.service.settings.sqlite_path
        states = {"a": "running", "b": "paused", "c": "killed", "d": "running"}
        for key, state in states.items():
            client.create(key, state)
        made = Backups(path, folder, 0.0, 9).make()
        for key in "abc":
            client.set_state("stopped", key)
        client.create("a")  # the next revision has a key, which the copy knows nothing of
        ended = [row.id for row in client.service.store.experiments(newest=False) if row.unit_key is None]
        for _ in range(2):
            Backups(path, folder, 0.0, 9).drop_unit_keys(frozenset(ended))
    copy = f"sqlite:///{made}"
    assert main(["live", "check", "--store", copy]) == 0
    with open_client(copy) as client:
        for key, state in states.items():
            changes = client.changes(key)
            assert client.row(key).state == ("running" if key == "d" else "stopped")
            if key == "d":
                continue
            assert (changes[0]["who"], changes[0]["what"]) == ("backup", f"{state} -> stopped")
            assert [one["who"] for one in changes].count("backup") == 1
        assert client.show("r", "a")[1]["why"] == "stopped"
        assert client.create("a")["revision"] == 2
        assert client.show("r", "a")[1]["serve"] == "interleaved"


def test_a_killed_experiment_ends(client, monkeypatch):
    """A killed experiment can be restarted within a day; after that, or when it is cleaned, its key is deleted."""
    for key in "ab":
        client.create(key, window_s=0.1)
        client.show("r", key, unit="anna")
        client.longest = 0.0  # `live clean` goes by the clock of the machine
        client.wait_closed(key)
    client.call("POST", "/v1/kill")
    store = client.service.store
    state = lambda: {row.key: (row.state, row.unit_key is None) for row in store.experiments()}  # noqa: E731
    client.service.closer.run()
    assert state() == {"a": ("killed", False), "b": ("killed", False)}
    client.set_state("running", "b")
    monkeypatch.setattr("structsvm.live.counting.closing.KILLED_MS", -1)
    client.service.closer.run()
    assert state() == {"a": ("stopped", True), "b": ("running", False)}
    client.call("POST", "/v1/kill")
    assert main(["live", "clean", "--days", "0", "--store", client.service.settings.store]) == 0
    assert state()["b"] == ("stopped", True)
    assert client.stored("b") == []


def test_nothing_personal_is_in_the_file(client):
    client.create()
    headers = {"user-agent": "Mozilla/5.0 (X11)", "x-real-address": "203.0.113.77"}
    told = {"unit": "anna@example.org", "query": "my secret disease"}
    for k in range(10):
        body = {"request_id": f"session-8472-q{k}", "rankings": RANKINGS, **told}
        _, shown = client.call("POST", f"{ONE}/show", body, headers=headers)
        click = {"events": [{"token": shown["token"], "place": 1}]}
        assert client.call("POST", "/v1/clicks", click, headers=headers)[0] == 200
    path = client.service.settings.sqlite_path
    kept = b"".join(p.read_bytes() for p in path.parent.glob(path.name + "*"))
    assert b"d19" in kept  # the documents are there, and so would be the rest
    for text in ("session-8472-q", *headers.values(), *told.values()):
        assert text.encode() not in kept
    assert path.stat().st_mode & 0o077 == 0


def test_engines_come_from_the_configuration_file_only(open_client):
    with open_client(engines={"main": {"kind": "opensearch", "url": "http://127.0.0.1:9200/shop"}}) as client:

        def put(given):
            return client.call("PUT", ONE, {"rankers": ["prod", "new"], "engines": given})[0]

        for url in ("http://169.254.169.254/", "file:///etc/passwd", "http://127.0.0.1:9200"):
            assert put({"prod": {"engine": url}, "new": {"engine": url}}) == 422
            assert put({"prod": url, "new": url}) == 422
        assert put({"prod": {"engine": "main"}}) == 422
        assert put({"prod": {"engine": "main", "x": "\ud800"}, "new": {"engine": "main"}}) == 422
        assert put({"prod": {"engine": "other"}, "new": {"engine": "main"}}) == 422


# ---- fuzz ------------------------------------------------------------------------------------------------------------

ODD = [
    None,
    True,
    False,
    0,
    -1,
    1,
    3.5,
    1e308,
    10**400,
    "",
    "a",
    "e",
    "prod",
    "x" * 300,
    "\u0000",
    "\ud800",
    "é😀",
    "../..",
    "<script>",
    "' OR 1=1 --",
    [],
    {},
    [[]],
    [None],
    {"a": {}},
    {"prod": []},
    {"prod": ["a"], "new": ["a", "a"]},
    {"prod": [1], "new": ["a"]},
    {"prod": ["\ud800"], "new": ["a"]},
    {"prod": ["a\u0000"], "new": ["b"]},
    {"prod": "abc", "new": "abc"},
    {"prod": ["a"] * 1001, "new": ["b"]},
    ["prod", "new"],
    {"click": 1},
    {"": ""},
]
CALLED = {
    "show": (bodies.Show, {"request_id": "r", "rankings": RANKINGS}),
    "assign": (bodies.Assign, {"request_id": "r"}),
    "state": (bodies.SetState, {"to": "running"}),
    "clicks": (bodies.Clicks, {"events": [{"token": "x", "place": 1}]}),
    "put": (bodies.Config, {"rankers": ["prod", "new"]}),
}


def odd_calls(rng, n):
    """Calls with one or more fields that are odd, missing or damaged."""
    for _ in range(n):
        kind = rng.choice(list(CALLED))
        form, body = CALLED[kind]
        body = dict(body)
        for field in rng.sample([*form.__struct_fields__, "odd"], rng.randint(1, 2)):
            value = rng.choice(ODD)
            if kind == "put" and rng.random() < 0.3:
                names = ["bandit", "team_draft", "rucb", "mdb", "savage"]
                value = rng.choice([*names, {"alpha": rng.choice(ODD)}])
            body[field] = value
        if kind == "put" and rng.random() < 0.3:
            body["kind"], body["policy"] = "bandit", rng.choice(list(NAMES))
            body["policy_options"] = {
                rng.choice(["alpha", "delta", "n_arms", "horizon", "rng", ""]): rng.choice(ODD)
            }
        text = json.dumps(body)
        if rng.random() < 0.15:
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice(["", "}", "\\", '"', "NaN", "\x00"]) + text[at + 1 :]
        key = rng.choice(["e", "e", "e", "b", "none", "%00", "a b", "é", "..", "e%2F..", "x" * 100])
        own = f"/v1/experiments/{key}"
        path = {"put": own, "clicks": "/v1/clicks"}.get(kind, f"{own}/{kind}")
        yield ("PUT" if kind == "put" else "POST"), path, text


@pytest.mark.parametrize("seed", range(3))
def test_random_calls_get_documented_answers(client, seed):
    """Assert that each call is answered by 200, or by an error that states the expectation."""
    rng = random.Random(seed)
    client.create("e")
    client.create("b", kind="bandit")
    seen = set()
    calls = [
        (method, path, text.encode("utf-8", "surrogatepass")) for method, path, text in odd_calls(rng, 500)
    ]
    letters = string.printable.replace("#", "").replace("?", "")
    for _ in range(60):
        path = rng.choice(["/v1/clicks", f"{ONE}/show", f"{ONE}/assign", f"{ONE}/state", "/v1/kill"])
        calls.append(("POST", path, rng.randbytes(rng.randrange(200))))
        calls.append(("PUT", quote("/" + "".join(rng.choices(letters, k=rng.randrange(30)))), b""))
    for method, path, text in calls:
        answer = client.request(method, path, content=text)
        seen.add(answer.status_code)
        assert answer.status_code < 500, (method, path, text, answer.text)
        body = answer.json()
        if answer.status_code >= 400:
            assert set(body) == {"error"}
            assert body["error"]["code"]
            assert not any(ord(c) < 32 for c in body["error"]["message"])
            assert len(body["error"]["message"]) < 1000
    assert {200, 422, 404} <= seen
    for _, path, _ in calls[501::2]:
        assert client.request("GET", path).status_code < 500, path
    for path in (f"{ONE}/report", "/v1/experiments/b/report", "/v1/experiments", "/metrics", "/readyz"):
        assert client.request("GET", path).status_code == 200
    for text in ("?format=x", "?format=%00", "?format=structsvm&format=ubi"):
        assert client.request("GET", f"/v1/experiments/e/export{text}").status_code in (200, 422)
    for method in ("GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE"):
        assert client.request(method, "/v1/clicks").status_code in (404, 405)


def test_headers_that_do_not_end_are_cut_off(serve):
    """A request whose headers and body are sent at once is accepted, however long the body."""
    served = serve()
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\n")
        sent = 0
        with contextlib.suppress(OSError):
            while sent < 50_000_000:
                sent += connection.send(b"x-a: " + b"a" * 10_000 + b"\r\n")
        assert sent < 20_000_000  # what systems keep on the way
    served.create()
    rankings = {name: [f"{'d' * 200}{k}" for k in range(500)] for name in ("prod", "new")}
    body = {"request_id": "r", "rankings": rankings}
    assert served.call("POST", "/v1/experiments/e/show", body)[1]["serve"] == "interleaved"
