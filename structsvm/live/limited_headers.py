"""HTTP by httptools, which takes headers of any length, with a limit to them."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD = 65_536
"""Most bytes of the headers of a request, behind those that came with its first packet."""


class LimitedHeaders(HttpToolsProtocol):
    """The protocol of a connection; 431 and its end for one whose headers do not end."""

    _in_head = False
    _head = 0

    def on_message_begin(self) -> None:
        """Begin to count."""
        self._in_head, self._head = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Count no more: bodies have their own limit."""
        self._in_head = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Take what came, unless the headers are too long by now."""
        if self._in_head:
            self._head += len(data)
            if self._head > MAX_HEAD:
                self.transport.write(
                    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\r\n"
                )
                self.transport.close()
                return
        super().data_received(data)
