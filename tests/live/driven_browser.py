"""A browser that a test drives, over the pipe of the DevTools protocol: no further package is needed."""

import json
import os
import select
import subprocess
import time
from typing import Any

from tests.test_browser import BROWSER

_LEFT = "Inspected target navigated or closed"


class DrivenBrowser:
    """One page of a headless Chromium.

    The browser reads commands from its file descriptor 3 and writes answers and events to 4, each ended by NUL.
    """

    def __init__(self, profile: os.PathLike[str]) -> None:
        commands, self._write = os.pipe()
        self._read, answers = os.pipe()
        flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-sync",
            "--disable-component-update",
            "--disable-dev-shm-usage",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
        ]
        shell = f'exec "$0" "$@" 3<&{commands} 4>&{answers}'  # the descriptors that the browser expects
        self._process = subprocess.Popen(
            ["bash", "-c", shell, str(BROWSER), *flags],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._rest, self._n_sent, self._session = b"", 0, None
        self._loaded = ""  # the page that is there, by the id of its loading
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._call("Page.enable")
        self._call("Page.setLifecycleEventsEnabled", enabled=True)

    def open(self, address: str) -> None:
        """Load a page, and wait until it is loaded."""
        page = self._call("Page.navigate", url=address)["loaderId"]
        if self._loaded != page:
            self._wait(lambda _: self._loaded == page)

    def run(self, script: str) -> Any:
        """Return the value of ``script`` in the page, or in the next page if the browser is leaving the current one."""
        said = self._answer("Runtime.evaluate", expression=script, returnByValue=True)
        while said.get("error", {}).get("message") == _LEFT:
            said = self._answer("Runtime.evaluate", expression=script, returnByValue=True)
        assert "error" not in said, said
        answer = said["result"]
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def follow(self, script: str) -> None:
        """Run a script that opens another page, which may discard the script's answer, and wait for that page."""
        before = self._loaded
        self._send("Runtime.evaluate", expression=script)
        self._wait(lambda _: self._loaded != before)

    def click(self, element: str, button: str) -> None:
        """Press and release a mouse button over the element with an id."""
        box = f"document.getElementById({element!r}).getBoundingClientRect()"
        left, top = self.run(f"[{box}.left + 3, {box}.top + 3]")
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=left, y=top, button=button, clickCount=1)

    def close(self) -> None:
        """Close the browser."""
        os.close(self._write)
        os.close(self._read)
        self._process.terminate()
        self._process.wait(timeout=120)

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        said = self._answer(method, **params)
        assert "error" not in said, said
        result: dict[str, Any] = said["result"]
        return result

    def _answer(self, method: str, **params: Any) -> dict[str, Any]:
        number = self._send(method, **params)
        return self._wait(lambda said: said.get("id") == number)

    def _send(self, method: str, **params: Any) -> int:
        """Send a command, and return the number of its answer."""
        self._n_sent += 1
        message = {"id": self._n_sent, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        return self._n_sent

    def _wait(self, wanted: Any, seconds: float = 300) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while True:
            message, found, rest = self._rest.partition(b"\0")
            if not found:
                assert select.select([self._read], [], [], max(0, end - time.monotonic()))[0], (
                    "the browser is silent"
                )
                more = os.read(self._read, 1 << 16)
                assert more, "the browser has ended"
                self._rest += more
                continue
            self._rest = rest
            said: dict[str, Any] = json.loads(message)
            if said.get("method") == "Page.lifecycleEvent" and said["params"]["name"] == "load":
                self._loaded = said["params"]["loaderId"]
            if wanted(said):
                return said
