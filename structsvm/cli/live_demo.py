"""``structsvm live demo``: the service on this machine with digits to search for."""

from __future__ import annotations

import contextlib
import socket
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from structsvm.checks import check_whole


def demo(
    port: Annotated[int, "Port on this machine; 0 takes a free one."] = 8808,
    seed: Annotated[int, "Seed of the noise in the images and of the simulated visitors."] = 0,
    browse: Annotated[bool, "Open the page in a browser."] = False,
) -> None:
    """Search for digits in a list drafted from two rankers, and watch the verdict form. Ctrl-C ends it."""
    import uvicorn

    from structsvm.live.demo import create_demo
    from structsvm.live.settings import Settings
    from structsvm.live.store.opening import prepare

    check_whole("port", port, 0, 65535)
    check_whole("seed", seed, 0)
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with listening, tempfile.TemporaryDirectory(prefix="structsvm-demo-") as folder:
        try:
            listening.bind(("127.0.0.1", port))
        except OSError as error:
            raise ValueError(f"--port {port}: {error.strerror}; take another, or 0 for a free one") from None
        listening.listen()  # who comes before the first answer waits for it
        port = listening.getsockname()[1]
        settings = Settings(
            f"sqlite:///{Path(folder) / 'demo.db'}", port=port, keyless=True, grace_s=0.2, close_every_s=0.5
        )
        prepare(settings.store)
        app = create_demo(settings, seed)
        address = f"http://127.0.0.1:{port}/demo"
        typer.echo(f"structsvm live demo on {address}; Ctrl-C ends it")
        if browse:
            import webbrowser

            webbrowser.open(address)
        config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=2)
        with contextlib.suppress(KeyboardInterrupt):  # the way to end it
            uvicorn.Server(config).run(sockets=[listening])
