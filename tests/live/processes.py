"""Functions that wait for other threads and processes, and the demo as a process."""

import contextlib
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

DEMO = str(Path(__file__).parents[2] / "experiments" / "live_demo")


def wait_until(condition, *, seconds=300, pause=time.sleep, said=str):
    """Call ``condition`` until it returns a true value, and return it; fail with a message after a time limit."""
    end = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < end, said()
        pause(0.05)
    return answer


def free_port():
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return own.getsockname()[1]


@contextlib.contextmanager
def demo_process():
    """Yield the address of the demo, which must end without an error when interrupted."""
    with subprocess.Popen(
        [sys.executable, DEMO, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        try:
            yield re.search(r"http://127\.0\.0\.1:\d+/demo", demo.stdout.readline())[0]
        finally:
            demo.send_signal(signal.SIGINT)
            _, errors = demo.communicate(timeout=120)
        assert demo.returncode == 0
        assert not errors.replace("structsvm: compiling, once\n", ""), errors
