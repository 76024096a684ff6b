"""The error that every room of the service raises for a call that it does not take."""

from __future__ import annotations

from structsvm.common.escaping import printable


class Refused(Exception):
    """A call that is answered by an error: HTTP status, a word for programs, and a sentence for people."""

    def __init__(self, status: int, code: str, message: str, retry_after: int | None = None) -> None:
        said = " ".join(printable(message).split())[:500]  # some of it may be the caller's
        super().__init__(said)
        self.status, self.code, self.message, self.retry_after = status, code, said, retry_after
