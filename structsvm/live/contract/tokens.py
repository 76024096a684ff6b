"""Ids, tokens and shares from keyed hashes, the same on every worker.

A token identifies the impression of a click and is signed with the secret of the service; the signature is checked
before all other fields of a click.
"""

import base64
import hmac
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, Self

from structsvm.common.checks import BadInput

_MAC = 16
_TOKEN = 29
"""Bytes of a token before its signature: key (1), experiment (4), documents (2), time (6), impression (16)."""

TOKEN_LENGTH = 60
"""Number of characters in a token."""

_MOST_SEALED = 8192
"""Maximum number of characters of an assignment: a request id of 512 control characters needs more than half."""


class Token(NamedTuple):
    """Content of a token: experiment, number of documents, time shown (ms) and impression."""

    experiment: int
    n_documents: int
    shown_at: int
    impression: bytes


class Secrets:
    """The secrets that sign tokens; the first one signs, and signatures by any of them are accepted."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys or any(len(key) < 32 for key in keys):
            raise BadInput("secret_file", "expected secrets of 32 bytes or more, one per line")
        # BLAKE2b takes keys of up to 64 bytes
        short = [blake2b(key).digest() for key in keys]
        self._newest = short[0]
        self._number = _key_number(short[0])
        self._by_number = {_key_number(key): key for key in reversed(short)}

    @property
    def fingerprint(self) -> str:
        """A hash of the newest secret; unlike the secret, it may be stored and shown."""
        return blake2b(b"fingerprint|" + self._newest, digest_size=8).hexdigest()

    @classmethod
    def of_file(cls, path: Path) -> Self:
        """Read the secrets from a file; if it is missing, create it with a new secret (mode 600).

        Workers that start at the same time agree on the first secret; the file never exists without its secret, even if
        a worker is killed.
        """
        if not path.exists():
            own = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
            try:
                with os.fdopen(os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                    file.write(secrets.token_hex(32) + "\n")
                    file.flush()
                    os.fsync(file.fileno())
                try:
                    os.link(own, path)
                except OSError:  # another process was first, or the file system has no hard links
                    _rename_once(own, path)
            finally:
                own.unlink(missing_ok=True)
        return cls([line.encode() for line in path.read_text(encoding="ascii").split()])

    def token(self, token: Token) -> str:
        """Return the signed text of a token."""
        numbers = token.experiment.to_bytes(4) + token.n_documents.to_bytes(2) + token.shown_at.to_bytes(6)
        payload = bytes((self._number,)) + numbers + token.impression
        return base64.urlsafe_b64encode(payload + keyed(self._newest, b"t" + payload)).decode()

    def read(self, text: object) -> Token | None:
        """Return the content of a token, or None if this service did not sign it."""
        raw = _decoded(text, TOKEN_LENGTH)
        if len(raw) != _TOKEN + _MAC:
            return None
        payload, mac = raw[:_TOKEN], raw[_TOKEN:]
        key = self._by_number.get(payload[0])
        if key is None or not hmac.compare_digest(mac, keyed(key, b"t" + payload)):
            return None
        experiment, n_documents, at = map(int.from_bytes, (payload[1:5], payload[5:7], payload[7:13]))
        return Token(experiment, n_documents, at, payload[13:])

    def seal(self, value: Mapping[str, Any]) -> str:
        """Return signed text that contains a small JSON object."""
        payload = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
        return base64.urlsafe_b64encode(
            bytes((self._number,)) + keyed(self._newest, b"a" + payload) + payload
        ).decode()

    def unseal(self, text: object) -> dict[str, Any] | None:
        """Return the argument of :meth:`seal`, or None if this service did not sign it."""
        raw = _decoded(text, _MOST_SEALED)
        if len(raw) <= _MAC + 1 or (key := self._by_number.get(raw[0])) is None:
            return None
        payload = raw[_MAC + 1 :]
        if not hmac.compare_digest(raw[1 : _MAC + 1], keyed(key, b"a" + payload)):
            return None
        return dict(json.loads(payload))


def keyed(key: bytes, text: bytes, size: int = _MAC) -> bytes:
    """Return a keyed hash (BLAKE2b, RFC 7693): a signature of 128 bits by default, or a seed.

    HMAC-SHA256 would also work, but takes four times as long, and a request needs several hashes.
    """
    return blake2b(text, digest_size=size, key=key).digest()


def impression_id(salt: bytes, request_id: str, offset: int) -> bytes:
    """Return the id of the impression of a request, one for each page; 16 bytes."""
    return keyed(salt, f"id|{offset}|{request_id}".encode())


def hashed_unit(unit_key: bytes, unit: str) -> bytes:
    """Return the stored hash of a user or session: 8 bytes, meaningless once the key is deleted."""
    return keyed(unit_key, b"unit|" + unit.encode(), 8)


def bucket(unit_key: bytes, unit: str) -> float:
    """Return a number in [0, 1) that is always the same for a unit of an experiment, and uniform over units."""
    return int.from_bytes(keyed(unit_key, b"share|" + unit.encode(), 6)) / 2**48


def _rename_once(own: Path, path: Path) -> None:
    """Rename a file unless another process has created ``path``; a lock admits one process at a time."""
    import fcntl

    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if not path.exists():
            own.rename(path)
    finally:
        os.close(folder)  # closing it releases the lock


def _decoded(text: object, most: int) -> bytes:
    """Return the bytes of signed text with a limited number of characters; empty for anything else."""
    if type(text) is not str or len(text) > most:
        return b""
    try:
        return base64.b64decode(text, b"-_", validate=True)
    except ValueError:
        return b""


def _key_number(key: bytes) -> int:
    return blake2b(b"number|" + key).digest()[0]
