"""A load generator with minimal overhead for the live service: one process, raw sockets, requests as bytes.

It shares the processors with the measured service, so it parses only the status, the length and the token of an answer:
about 20 microseconds per request.
"""

import json
import multiprocessing
import select
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

__all__ = ["RANKINGS", "load"]

RANKINGS = {
    "prod": [f"document-{k:02d}" for k in range(20)],
    "new": [f"document-{k:02d}" for k in [*range(5, 20), *range(5)]],
}

_HEAD = b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n"
_TOKEN = b'"token":"'
_TOKEN_LENGTH = 60

Times = dict[str, list[float]]


def _show(name: bytes) -> bytes:
    body = b'{"request_id":"%s","unit":"%s","rankings":%s}' % (name, name, _SENT)
    return _HEAD % (b"/v1/experiments/load/show", len(body)) + body


def _click(token: bytes, place: int) -> bytes:
    body = b'{"events":[{"token":"%s","place":%d,"action":"click"}]}' % (token, place)
    return _HEAD % (b"/v1/clicks", len(body)) + body


_SENT = json.dumps(RANKINGS, separators=(",", ":")).encode()


class _Visitor:
    """A connection on which lists and clicks alternate."""

    __slots__ = ("began", "buffer", "is_show", "n", "socket")

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.is_show = True
        self.began = 0.0
        self.n = 0

    def send(self, request: bytes, is_show: bool) -> None:
        self.is_show, self.began = is_show, time.perf_counter()
        self.socket.sendall(request)

    def answer(self) -> bytes | None:
        """Read the received bytes and return the answer once complete; raise ConnectionError if the service hung up."""
        came = self.socket.recv(65536)
        if not came:
            raise ConnectionResetError
        self.buffer += came
        head = self.buffer.find(b"\r\n\r\n")
        if head < 0:
            return None
        at = self.buffer.find(b"content-length: ") + 16
        end = head + 4 + int(self.buffer[at : self.buffer.find(b"\r", at)])
        if len(self.buffer) < end:
            return None
        found, self.buffer = self.buffer[:end], self.buffer[end:]
        return found


def _take(visitor: _Visitor, answer: bytes, times: Times) -> bytes | None:
    """Record the time of an answer; return the token if the answer is a recorded list."""
    times["show" if visitor.is_show else "click"].append(time.perf_counter() - visitor.began)
    if not answer.startswith(b"HTTP/1.1 200"):
        times["refused"].append(1.0)
        return None
    if not visitor.is_show:
        return None
    at = answer.find(_TOKEN)
    if at < 0:
        times["refused"].append(1.0)
        return None
    return answer[at + len(_TOKEN) : at + len(_TOKEN) + _TOKEN_LENGTH]


def _answers(poll: select.epoll, visitors: dict[int, _Visitor], wait_s: float) -> Iterator[_Visitor]:
    for number, _ in poll.poll(max(wait_s, 0.0)):
        yield visitors[number]


def _connect(port: int, n: int) -> tuple[select.epoll, dict[int, _Visitor]]:
    poll, visitors = select.epoll(), {}
    for _ in range(n):
        visitor = _Visitor(port)
        visitors[visitor.socket.fileno()] = visitor
        poll.register(visitor.socket, select.EPOLLIN)
    return poll, visitors


def closed_loop(port: int, n_connections: int, seconds: float, prefix: bytes) -> Times:
    """Run this many connections, each of which sends a request after the answer to the previous request."""
    times: Times = {"show": [], "click": [], "refused": []}
    poll, visitors = _connect(port, n_connections)
    n, end, busy = 0, time.perf_counter() + seconds, n_connections
    cpu = time.process_time()

    def begin(visitor: _Visitor) -> None:
        nonlocal n
        n += 1
        visitor.send(_show(b"%s-%d" % (prefix, n)), True)

    for visitor in visitors.values():
        begin(visitor)
    while busy:
        for visitor in _answers(poll, visitors, 1.0):
            try:
                answer = visitor.answer()
            except ConnectionError:
                # no answer for too long: on a busy machine, client or service may be halted for seconds
                del visitors[visitor.socket.fileno()]
                visitor.socket.close()
                visitor = _Visitor(port)
                visitors[visitor.socket.fileno()] = visitor
                poll.register(visitor.socket, select.EPOLLIN)
                times["refused"].append(1.0)
                begin(visitor)
                continue
            if answer is None:
                continue
            token = _take(visitor, answer, times)
            if token is not None:
                visitor.send(_click(token, 1 + n % 10), False)
            elif time.perf_counter() < end:
                begin(visitor)
            else:
                busy -= 1
    times["cpu"] = [time.process_time() - cpu]
    return times


def open_loop(port: int, rate: float, seconds: float, prefix: bytes) -> Times:
    """Start visits at random times, even before earlier visits end; waiting counts from the intended start."""
    times: Times = {"show": [], "click": [], "refused": []}
    poll, visitors = _connect(port, 64)
    free = list(visitors.values())
    rng = np.random.default_rng(0)
    starts = time.perf_counter() + np.cumsum(rng.exponential(1 / rate, int(rate * seconds)))
    cpu, n = time.process_time(), 0
    while n < len(starts) or len(free) < len(visitors):
        now = time.perf_counter()
        while n < len(starts) and starts[n] <= now and free:
            visitor = free.pop()
            visitor.send(_show(b"%s-%d" % (prefix, n)), True)
            visitor.began = float(starts[n])
            n += 1
        wait = float(starts[n]) - time.perf_counter() if n < len(starts) and free else 1.0
        for visitor in _answers(poll, visitors, wait):
            answer = visitor.answer()
            if answer is None:
                continue
            token = _take(visitor, answer, times)
            if token is None:
                free.append(visitor)
            else:
                visitor.send(_click(token, 1 + n % 10), False)
    times["cpu"] = [time.process_time() - cpu]
    return times


_KINDS: dict[str, Callable[..., Times]] = {"closed": closed_loop, "open": open_loop}


def _child(kind: str, port: int, amount: float, seconds: float, prefix: str, pipe: Any) -> None:
    pipe.send(_KINDS[kind](port, amount, seconds, prefix.encode()))


def load(kind: str, port: int, amount: float, seconds: float, prefix: str) -> Times:
    """Return the times in seconds under a load from another process.

    Parameters
    ----------
    kind : {"closed", "open"}
    port : int
    amount : float
        Connections (closed) or visits per second (open), each with a list and a click.
    seconds : float
    prefix : str
        Of the request ids.

    Returns
    -------
    dict
        ``show``, ``click``: times of answers; ``refused``: one entry per unexpected answer; ``cpu``: of the
        load itself.
    """
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("spawn").Process(
        target=_child, args=(kind, port, amount, seconds, prefix, theirs)
    )
    child.start()
    theirs.close()  # otherwise recv would wait for ever if the child dies
    times: Times = ours.recv()
    child.join()
    return times
