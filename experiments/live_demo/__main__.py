"""Search for digits in a list drafted from two rankers, and watch the verdict form; Ctrl-C ends it.

``python experiments/live_demo``, or ``make live``.
"""

import argparse
import socket
import tempfile
import webbrowser
from contextlib import suppress
from pathlib import Path

import uvicorn
from app import create_demo

from structsvm.common.checks import BadInput
from structsvm.live.contract.settings import Settings
from structsvm.live.store.opening import prepare
from structsvm.live.web.serving import check_address


def main() -> None:
    """Run the demo on this machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8808, help="port on this machine; 0 takes a free one")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the noise in the images and of simulated visitors"
    )
    parser.add_argument("--browse", action="store_true", help="open the page in a browser")
    options = parser.parse_args()
    try:
        check_address(Settings("sqlite:///demo.db", port=options.port))
    except BadInput as error:
        parser.exit(2, f"{error}\n")
    with (
        socket.create_server(("127.0.0.1", options.port)) as listening,
        tempfile.TemporaryDirectory(prefix="structsvm-demo-") as folder,
    ):
        port = listening.getsockname()[1]
        settings = Settings(
            f"sqlite:///{Path(folder) / 'demo.db'}", port=port, keyless=True, grace_s=0.2, close_every_s=0.5
        )
        prepare(settings.store)
        address = f"http://127.0.0.1:{port}/demo"
        print(f"structsvm live demo on {address}; Ctrl-C ends it", flush=True)
        if options.browse:
            webbrowser.open(address)
        config = uvicorn.Config(
            create_demo(settings, options.seed),
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=2,
        )
        with suppress(KeyboardInterrupt):  # the way to end it
            uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
