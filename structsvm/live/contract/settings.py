"""Settings of a service, read at startup; none can be changed over HTTP."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from structsvm.common.checks import BadInput, check_flag, check_number, check_whole


@dataclass(frozen=True)
class Settings:
    """Address, store and limits of a service.

    Parameters
    ----------
    store : str
        ``sqlite:///FILE`` or a PostgreSQL URL.
    host : str, default="127.0.0.1"
        Address to listen on.
    port : int, default=8808
        Port to listen on.
    workers : int, default=1
        Number of processes that handle requests.
    secret_file : str or None, default=None
        File with the secrets that sign tokens, newest first, one per line; created if missing. By default
        ``FILE.secret`` beside a SQLite file; required for PostgreSQL.
    allowed_hosts : tuple of str
        Host names by which the service may be addressed (the ``Host`` header), besides those of loopback and ``host``.
    keyless : bool, default=False
        Let programs on this machine call without a key: only on a loopback address, and only calls that no reverse
        proxy has forwarded. By default the API and the pages need a key, except for clicks.
    origins : tuple of str
        Sites whose pages may send clicks (CORS), such as ``"https://shop.example"``.
    strict : bool, default=False
        Answer 503 if a list cannot be recorded, instead of 200 with production's list.
    max_body : int, default=262144
        Maximum size of a request body in bytes. Searches have a limit of their own, ``max_search_body``, whose default
        is the limit of the search engines.
    search_header : str, default="x-structsvm-search"
        Header with the id of a search, which all its pages and retries share.
    grace_s : float or None, default=None
        Seconds between the end of a window and its closing; by default 1 (SQLite) or 30 (PostgreSQL).
    close_every_s : float, default=1.0
        Seconds between two runs of the closer.
    behind_s : float, default=0.1
        Seconds that a user waits for a list to be on disk; after that, production's list is shown.
    click_rate : float, default=50.0
        Calls that send clicks, per second, from one address without a key, per worker; ten times as many in a burst.
        0 means no limit. Loopback services without keys have no limit.
    trusted_proxies : tuple of str
        Addresses of reverse proxies whose ``X-Forwarded-For`` identifies the caller, for ``click_rate``.
    backup_folder : str or None, default=None
        Folder for regular copies of a SQLite store.
    backup_every_h : float, default=1.0
        Hours between two copies.
    backups_kept : int, default=24
        Number of copies to keep; older copies are deleted.
    engines : mapping
        The table ``[engines]`` of the configuration file: search engines by name, for the proxy. Their
        addresses cannot be set elsewhere.

    Examples
    --------
    >>> Settings("sqlite:///clicks.db", port=8809).secret_path.name
    'clicks.db.secret'
    """

    store: str
    host: str = "127.0.0.1"
    port: int = 8808
    workers: int = 1
    secret_file: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    keyless: bool = False
    origins: tuple[str, ...] = ()
    strict: bool = False
    max_body: int = 262_144
    max_search_body: int = 104_857_600
    search_header: str = "x-structsvm-search"
    grace_s: float | None = None
    close_every_s: float = 1.0
    behind_s: float = 0.1
    click_rate: float = 50.0
    trusted_proxies: tuple[str, ...] = ()
    backup_folder: str | None = None
    backup_every_h: float = 1.0
    backups_kept: int = 24
    engines: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        sqlite_file(self.store)
        for name, least, most in (
            ("port", 0, 65535),
            ("workers", 1, 256),
            ("max_body", 1024, 1 << 30),
            ("max_search_body", 1024, 1 << 31),
            ("backups_kept", 1, 1_000_000),
        ):
            check_whole(name, getattr(self, name), least, most)
        for name, high in (("close_every_s", 1e7), ("behind_s", 3600.0), ("backup_every_h", 1e6)):
            check_number(name, getattr(self, name), 0.0, high, open_end=True)
        check_number("click_rate", self.click_rate, 0.0, 1e9)
        check_flag("keyless", self.keyless)
        check_flag("strict", self.strict)
        for name, kind in (
            ("search_header", str),
            ("secret_file", str | None),
            ("backup_folder", str | None),
        ):
            if not isinstance(getattr(self, name), kind):
                raise BadInput(name, "expected a string", value=getattr(self, name))
        if self.keyless and not all(map(is_loopback, (self.host, *self.allowed_hosts))):
            raise BadInput("keyless", "expected only loopback addresses, as remote callers would need no key")
        if self.backup_folder is not None and self.sqlite_path is None:
            raise BadInput("backup_folder", "expected none for PostgreSQL", "run pg_dump regularly")
        if self.grace_s is not None:
            check_number("grace_s", self.grace_s, 0.0, 604_800.0)
        if not self.secret_file and self.sqlite_path is None:
            raise BadInput("secret_file", "PostgreSQL requires a file for the secrets that sign tokens")

    @property
    def sqlite_path(self) -> Path | None:
        """The file of a SQLite store; None for PostgreSQL."""
        return sqlite_file(self.store)

    @property
    def secret_path(self) -> Path:
        """File of the secrets, by default ``<store>.secret`` beside a SQLite store."""
        return Path(self.secret_file or f"{self.sqlite_path}.secret")

    @property
    def grace_ms(self) -> int:
        """Milliseconds between the end of a window and its closing."""
        default = 30.0 if self.sqlite_path is None else 1.0
        return round(1000 * (default if self.grace_s is None else self.grace_s))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the settings from their values, such as those of a configuration file."""
        lists = ("allowed_hosts", "origins", "trusted_proxies")
        return cls(**{**values, **{key: names_in(key, values[key]) for key in lists if key in values}})


def names_in(key: str, value: object) -> tuple[str, ...]:
    """Return the names in a setting; raise BadInput for anything but a list of strings."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(name, str) for name in value):
        raise BadInput(key, "expected a list of strings", 'write it in brackets, as ["..."]', value=value)
    return tuple(value)


def sqlite_file(store: str) -> Path | None:
    """Return the file of a SQLite store, None for PostgreSQL; raise BadInput for the URL of anything else."""
    if not store.startswith(("sqlite:///", "postgresql://", "postgresql+psycopg://")):
        raise BadInput("store", "expected sqlite:///FILE or postgresql://...", value=store)
    return Path(store.removeprefix("sqlite:///")) if store.startswith("sqlite:") else None


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
