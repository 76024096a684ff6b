"""The Python client: the service accepts its requests, and without a service it returns production."""

import contextlib
import json
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import structsvm.live
from structsvm.live.client import Client, Page
from tests.live.driven_browser import DrivenBrowser
from tests.live.processes import wait_until
from tests.refusing import refused
from tests.test_browser import BROWSER, FLAGS

SCRIPT = Path(structsvm.live.__file__).parent / "client.js"
RANKINGS = {"prod": ["a", "b", "c", "d"], "new": ["c", "a", "e", "f"]}


def test_with_a_service(serve):
    served = serve()
    served.create("shop", length=3)
    client = Client(f"http://127.0.0.1:{served.port}", timeout_s=10)
    assigned = client.assign("shop", "r1", unit="u")
    assert (assigned["serve"], assigned["rankers"]) == ("interleaved", ["prod", "new"])
    sealed = assigned["assignment"]
    page, again = (
        client.show("shop", "r1", RANKINGS, production="prod", length=3, unit="u", **more)
        for more in ({"query": "q", "assignment": sealed}, {})
    )
    assert (page.serve, page.why, len(page.documents)) == ("interleaved", None, 3)
    assert again.documents == page.documents
    assert client.click(page.token, page.documents[0])
    assert client.clicks([{"token": page.token, "place": 2, "dwell_s": 3}])["accepted"] == 1
    sorted_page = client.show("shop", "r2", RANKINGS, production="prod", length=3, context={"sort": "price"})
    assert sorted_page == Page(("a", "b", "c"), None, "production", "sort")
    # a call that is wrong does not make the service rest
    assert client.show("nothing", "r1", RANKINGS, production="prod", length=2).why == "refused"
    wrong = {"prod": [1, 2], "new": [2, 1]}
    assert client.show("shop", "r1", wrong, production="prod", length=2) == Page((1, 2), why="refused")
    assert client.assign("shop", "r3")["serve"] == "interleaved"
    served.stop()
    assert client.show("shop", "r4", RANKINGS, production="prod", length=2, offset=1).documents == ("b", "c")


class Answering:
    """A server on loopback that returns given answers and records its requests."""

    def __init__(self, status=200, answer=b"{}", **headers):
        outer, self.asked = self, []
        self.status, self.answer, self.headers = status, answer, headers

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.asked.append((self.path, dict(self.headers), body))
                self.answer(outer.status, outer.answer, outer.headers)

            def do_GET(self):
                content = {"/": outer.page.encode(), "/client.js": SCRIPT.read_bytes()}.get(self.path, b"")
                kind = "text/javascript" if self.path == "/client.js" else "text/html"
                self.answer(200, content, {"Content-Type": kind})

            def answer(self, status, content, headers):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (500, b"{}"),
        (503, b"x"),
        (200, b"<html>"),
        (200, b""),
        (200, b"[]"),
        (302, b""),
        (200, b"{}"),
        (200, b'{"documents": null, "token": null}'),
    ],
)
def test_show_returns_a_list_for_every_answer(status, answer):
    with Answering(status, answer, Location="http://127.0.0.1:9/") as server:
        client = Client(server.url, timeout_s=10)
        page = client.show("shop", "r", RANKINGS, production="prod", length=2)
        assert page == Page(("a", "b"), None, "production", "unreachable")
        assert not client.click("t", "a")


def test_after_a_failure_the_service_is_left_alone():
    with Answering(500) as server:
        client = Client(server.url, timeout_s=10, rest_s=1000)
        for _ in range(5):
            client.show("shop", "r", RANKINGS, production="prod", length=2)
        assert len(server.asked) == 1


def test_the_key_is_sent_as_a_header():
    with Answering(answer=b'{"accepted": 1}') as server:
        assert Client(server.url + "/", key="sk_1_x", timeout_s=10).click("t", "a", action="cart", dwell_s=2)
        ((path, headers, body),) = server.asked
    assert (path, headers["Authorization"]) == ("/v1/clicks", "Bearer sk_1_x")
    assert json.loads(body) == {"events": [{"token": "t", "document": "a", "action": "cart", "dwell_s": 2}]}


@pytest.mark.parametrize("url", ["127.0.0.1:8808", "file:///etc/passwd", ""])
def test_addresses_are_checked(url):
    refused("expected an http or https address", Client, url)


PAGE = """<!doctype html><ol data-structsvm-token="T"><li data-structsvm-document="d&quot;1"><a href="#x">one</a></li>
<li data-structsvm-document="d2" data-structsvm-action="cart"><b>two</b></li></ol><p data-structsvm-document="no">
<script src="/client.js"></script>
<script>document.querySelector("a").click(); document.querySelector("b").click(); document.querySelector("p").click();
structsvm.click("U", "d3");</script>"""


@pytest.mark.skipif(BROWSER is None, reason="no chromium found to look at the pages")
@pytest.mark.parametrize("status", [200, 503])
def test_the_snippet_sends_clicks_until_they_are_taken(status, tmp_path):
    with Answering(status, b'{"accepted": 1}') as server:
        server.page = PAGE
        flags = [flag for flag in FLAGS if "virtual-time" not in flag]
        flags += ["--virtual-time-budget=9000", f"--user-data-dir={tmp_path / 'p'}", "--dump-dom"]
        subprocess.run([BROWSER, *flags, server.url + "/"], capture_output=True, check=True, timeout=300)
        sent = [json.loads(body)["events"] for _, _, body in server.asked]
        kinds = {headers["Content-Type"] for _, headers, _ in server.asked}
    assert kinds == {"text/plain"}
    expected = [
        {"token": "T", "document": 'd"1', "action": "click"},
        {"token": "T", "document": "d2", "action": "cart"},
        {"token": "U", "document": "d3", "action": "click"},
    ]
    if status == 200:
        assert [event for events in sent for event in events] == expected
    else:  # kept, and sent again
        assert len(sent) >= 2
        assert sent[-1] == expected


@pytest.mark.skipif(BROWSER is None, reason="no chromium found to look at the pages")
@pytest.mark.parametrize(("button", "sends"), [("left", True), ("middle", True), ("right", False)])
def test_buttons_that_open_a_document_are_clicks(button, sends, tmp_path):
    """The middle button, which opens a new tab, triggers ``auxclick`` but not ``click``."""
    with Answering(answer=b'{"accepted": 1}') as server:
        server.page = """<!doctype html><ol data-structsvm-token="T"><li data-structsvm-document="d1">
<a id="a" href="#x">one</a></li></ol><script src="/client.js"></script>"""
        with contextlib.closing(DrivenBrowser(tmp_path / "profile")) as browser:
            browser.open(server.url + "/")
            browser.click("a", button)
            browser.run("structsvm.click('T', 'last')")

            def events():
                return [event for _, _, body in server.asked for event in json.loads(body)["events"]]

            wait_until(lambda: {"token": "T", "document": "last", "action": "click"} in events(), said=events)
    assert [event["document"] for event in events()] == ["d1"] * sends + ["last"]
