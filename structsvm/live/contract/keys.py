"""API keys: shown once, stored as a hash, each with one scope of calls."""

import base64
import hmac
import secrets
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from structsvm.common.checks import check_choice

SCOPES = ("show", "click", "read", "admin")
"""Scopes of a key: request lists; send clicks for others; read reports; change experiments (and everything else)."""


def new_key(scope: str) -> tuple[str, str, bytes]:
    """Create a key; return its text, which is shown once, its id, and its hash."""
    check_choice("scope", scope, SCOPES)
    identity = secrets.token_hex(4)
    text = f"sk_{identity}_{secrets.token_hex(24)}"
    return text, identity, sha256(text.encode()).digest()


class Keys:
    """The keys of a store."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows = {row["id"]: (row["hash"], row["scope"]) for row in rows}

    def allows(self, authorization: str | None, scope: str) -> str | None:
        """Return the id of the key in an ``Authorization`` header if it allows ``scope``, else None.

        The header is ``Bearer KEY``, or ``Basic`` with the key as the password, which browsers can send.
        """
        identity, granted = self._known(_given(authorization))
        return identity if granted in (scope, "admin") else None

    def refuses(self, authorization: str | None) -> bool:
        """Return whether a header carries an unknown key, such as one that was removed."""
        text = _given(authorization)
        return text.startswith("sk_") and not self._known(text)[1]

    def _known(self, text: str) -> tuple[str, str]:
        """Return the id and the scope of a key; the scope is empty if there is no such key."""
        parts = text.split("_")
        if len(parts) != 3:
            return "", ""
        hashed, granted = self._rows.get(parts[1], (bytes(32), ""))
        return parts[1], granted if hmac.compare_digest(hashed, sha256(text.encode()).digest()) else ""


def _given(authorization: str | None) -> str:
    if authorization is None or len(authorization) > 500:
        return ""
    kind, _, value = authorization.partition(" ")
    if kind.lower() == "bearer":
        return value.strip()
    if kind.lower() == "basic":
        try:
            return base64.b64decode(value.strip(), validate=True).decode().partition(":")[2]
        except ValueError:
            return ""
    return ""
