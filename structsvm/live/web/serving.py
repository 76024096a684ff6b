"""The processes of a service: a supervisor and its workers."""

import json
import logging
import multiprocessing
import os
import signal
import socket
import tempfile
import threading
from dataclasses import asdict
from multiprocessing.process import BaseProcess

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from structsvm.common.checks import BadInput
from structsvm.live.contract.metrics import processes
from structsvm.live.contract.settings import Settings
from structsvm.live.web.app import create_app

MAX_HEAD = 65_536
"""Maximum number of bytes in the headers of a request after its first packet."""

_VARIABLE = "STRUCTSVM_LIVE_SETTINGS"

_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\r\n"

_log = logging.getLogger("structsvm.live")


def check_address(settings: Settings) -> None:
    """Raise BadInput unless the service can listen on its address; called before any file is created."""
    host = settings.host.strip("[]")
    try:
        found = socket.getaddrinfo(host, settings.port, type=socket.SOCK_STREAM)
    except OSError:
        raise BadInput("host", "expected an address of this machine", value=settings.host) from None
    family, kind, _, _, address = found[0]
    with socket.socket(family, kind) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(address)
        except OSError as error:
            why = error.strerror or str(error)
            raise BadInput(
                "port",
                f"expected a free port on {settings.host}, got {settings.port} ({why.lower()})",
                "choose another",
            ) from None


def worker_app() -> Starlette:
    """Return the application of a worker process, whose settings are in its environment."""
    settings = Settings.from_dict(json.loads(os.environ[_VARIABLE]))
    if (parent := multiprocessing.parent_process()) is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    # the metrics of a worker remain in files named by its process id, even after it has died
    n_workers = settings.workers
    if n_workers > 1 and len(processes()) >= n_workers:
        _log.warning("structsvm live: a worker that died or stopped answering is replaced")
    return create_app(settings)


def _end_with(parent: BaseProcess) -> None:
    """End this worker when the main process has died, as the worker would keep the port and the store."""
    parent.join()
    _log.error("structsvm live: the main process has died: its workers end")
    os.kill(os.getpid(), signal.SIGTERM)


def serve(settings: Settings) -> None:
    """Run the service until it is interrupted; workers that die are replaced."""
    os.environ[_VARIABLE] = json.dumps(asdict(settings))
    with tempfile.TemporaryDirectory(prefix="structsvm-live-") as folder:
        if settings.workers > 1:
            # one response with the metrics of all workers, including those that have died
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        uvicorn.run(
            "structsvm.live.web.serving:worker_app",
            factory=True,
            http=LimitedHeaders,
            lifespan="on",
            host=settings.host.strip("[]"),
            port=settings.port,
            workers=settings.workers,
            log_level="warning",
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=bool(settings.trusted_proxies),
            forwarded_allow_ips=list(settings.trusted_proxies),
            timeout_graceful_shutdown=5,
        )


class LimitedHeaders(HttpToolsProtocol):
    """Limit the length of headers, which httptools does not: longer headers get status 431, and the connection is
    closed."""

    _in_head = False
    _head = 0

    def on_message_begin(self) -> None:
        """Start counting the bytes of headers."""
        self._in_head, self._head = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Stop counting the bytes of headers: bodies have their own limit."""
        self._in_head = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Parse the bytes received, unless the headers are already too long."""
        if self._in_head:
            self._head += len(data)
            if self._head > MAX_HEAD:
                self.transport.write(_TOO_LONG)
                self.transport.close()
                return
        super().data_received(data)
