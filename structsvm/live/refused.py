"""The error that every room of the service raises for a call that it does not take."""

from __future__ import annotations


class Refused(Exception):
    """A call that is answered by an error: HTTP status, a word for programs, and a sentence for people."""

    def __init__(self, status: int, code: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.retry_after = status, code, message, retry_after
