"""The error that every room of the service raises for a call that it does not take."""

from __future__ import annotations

__all__ = ["Refused"]


class Refused(Exception):
    """A call that is answered by an error.

    Parameters
    ----------
    status : int
        The HTTP status: 401, 403, 404, 409, 413, 422, 429 or 503.
    code : str
        One word for programs, ``"unknown_experiment"``.
    message : str
        One sentence for people.
    retry_after : int, optional
        Seconds after which to try again.
    """

    def __init__(self, status: int, code: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.retry_after = status, code, message, retry_after
