"""``structsvm live``: run experiments on live traffic as a service, with tools for its operator."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from structsvm.cli import paths
from structsvm.cli.options import Output
from structsvm.cli.terminal import GATE, group, note, working
from structsvm.common.checks import BadInput, check_choice
from structsvm.common.files import replacing

if TYPE_CHECKING:
    from structsvm.live.store.queries import Store
    from structsvm.live.store.records import ExperimentRow

StoreUrl = Annotated[
    str, typer.Option("--store", help="sqlite:///FILE or a PostgreSQL URL.", envvar="STRUCTSVM_LIVE_STORE")
]
SecretFile = Annotated[Path | None, "File of secrets that sign tokens, newest first. (default: FILE.secret)"]
Key = Annotated[str, "<KEY> Key of the experiment."]
DEFAULT_STORE = "sqlite:///structsvm-live.db"


def serve(
    store: StoreUrl = DEFAULT_STORE,
    host: Annotated[str, "Address to listen on."] = "127.0.0.1",
    port: Annotated[int, "Port to listen on."] = 8808,
    workers: Annotated[int, "Number of processes that answer requests."] = 1,
    config: Annotated[Path | None, "TOML file with the tables engines.NAME and serve."] = None,
    secret_file: SecretFile = None,
    allowed_host: Annotated[
        list[str] | None, "Host name under which the service may be called; repeat for more."
    ] = None,
    origin: Annotated[
        list[str] | None, "Site whose pages may send clicks (https://...); repeat for more."
    ] = None,
    backup_folder: Annotated[
        Path | None, "Folder for hourly copies of the SQLite store; the last 24 are kept."
    ] = None,
    no_keys: Annotated[bool, "Let every program on this machine call without a key (loopback only)."] = False,
    strict: Annotated[bool, "Answer 503 instead of the production list when it cannot be recorded."] = False,
) -> None:
    """Run the service until it is interrupted."""
    from structsvm.live.contract.settings import Settings, names_in
    from structsvm.live.engines.engine import engines_of
    from structsvm.live.experiment.registry import follow_engines
    from structsvm.live.store.opening import prepare, without_password
    from structsvm.live.web.serving import check_address

    read = _read_toml(config)
    stated: dict[str, Any] = read.get("serve", {})
    if not isinstance(stated, dict):
        raise BadInput(f"{config}: serve", "expected a table", value=stated)
    options = {"store", "host", "port", "workers", "engines"}
    for name in read:
        check_choice(f"{config}: table", name, ("serve", "engines"))
    for name in stated:
        check_choice(f"{config}: serve: key", name, sorted(set(Settings.__dataclass_fields__) - options))
    given = {
        "secret_file": None if secret_file is None else str(secret_file),
        "backup_folder": None if backup_folder is None else str(backup_folder),
        "keyless": no_keys,
        "strict": strict,
    }
    stated |= {name: value for name, value in given.items() if value}
    for name, more in (("allowed_hosts", allowed_host), ("origins", origin)):
        stated[name] = [*names_in(name, stated.get(name, [])), *(more or ())]
    settings = Settings.from_dict(
        stated
        | {"store": store, "host": host, "port": port, "workers": workers, "engines": read.get("engines", {})}
    )
    try:
        engines_of(settings.engines)
    except BadInput as error:
        raise error.within(config or Path()) from None
    check_address(settings)
    if settings.keyless:
        prepare(store)
    with _open(store) as opened:
        if not settings.keyless and not opened.callers():
            raise BadInput(
                without_password(store),
                "expected a key, got none; create the first with: structsvm live init --store "
                f"{without_password(store)}",
                "to try the service on this machine only, start it with --no-keys",
            )
        for line in follow_engines(opened, settings.engines, time.time_ns() // 1_000_000):
            note(line)
        if not settings.secret_path.exists() and opened.last_shown_at():
            note(
                f"{settings.secret_path}: this file of the secret is missing; a new one is created, and old tokens "
                "will be refused"
            )
    from structsvm.live.web.serving import serve as run

    keys = ", no keys" if settings.keyless else ""
    typer.echo(
        f"structsvm live on http://{host}:{port}, {workers} worker(s), {without_password(store)}{keys}; Ctrl-C stops it"
    )
    run(settings)


def init(
    store: StoreUrl = DEFAULT_STORE,
    secret_file: SecretFile = None,
) -> None:
    """Create the store, its secret and the first key, which has all permissions and is shown once."""
    from structsvm.live.contract.settings import Settings
    from structsvm.live.contract.tokens import Secrets
    from structsvm.live.store.opening import open_database, prepare, without_password

    settings = Settings(store, secret_file=None if secret_file is None else str(secret_file))
    prepare(store)
    Secrets.of_file(settings.secret_path)
    with closing(open_database(store)) as opened:
        if opened.callers():
            raise BadInput(
                without_password(store),
                "expected a store without keys",
                "to add another: structsvm live key add",
            )
    note(f"{without_password(store)} is ready; keep this key, which is not shown again:")
    key_add("admin", store)


def create(
    file: Annotated[Path, "<FILE> TOML file with 'key' and the fields of the experiment."],
    store: StoreUrl = DEFAULT_STORE,
    start: Annotated[bool, "Start it at once."] = False,
    engines: Annotated[
        Path | None, typer.Option("--config", help="TOML file of 'live serve' that defines the engines.")
    ] = None,
) -> None:
    """Create or change the experiment that FILE describes."""
    from structsvm.live.contract.config import check_config, check_key
    from structsvm.live.engines.engine import with_hashes

    read = _read_toml(file)
    if "key" not in read:
        raise BadInput(file, 'expected key = "NAME", got none')
    if "engines" in read and engines is None:
        raise BadInput(file, "expected --config FILE, where FILE defines the engines of the experiment")
    try:
        key = check_key(read.pop("key"))
        config = with_hashes(check_config(read), _read_toml(engines).get("engines", {}))
    except BadInput as error:
        raise error.within(file) from None
    with _open(store) as opened:
        now = time.time_ns() // 1_000_000
        row = opened.put(key, config, now=now, who="command line", what=f"from {file.name}")
        if start:
            opened.set_state(row.id, "running", now=now, who="command line", reason="live create --start")
    typer.echo(f"{key} revision {row.revision}, {'running' if start else row.state}")


def check(
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Recompute all statistics from the stored impressions and clicks; exit code 0 if they agree, 3 if they differ."""
    from structsvm.live.counting.reporting import check_experiment

    n = 0
    with _open(store) as opened:
        problems = opened.integrity()
        rows = opened.experiments(newest=False)
        with working("checking") as status:
            for row in rows:
                status.update(row.title)
                read, found = check_experiment(opened, row, tell=_telling(status, row.title))
                n += read
                problems += found
    for problem in problems:
        note(problem)
    if problems:
        raise typer.Exit(GATE)
    n_keys = len({row.key for row in rows})
    typer.echo(
        f"{n_keys} experiment(s), {len(rows)} revision(s), {n:,} closed impressions: everything agrees"
    )


def export(
    key: Key,
    output: Annotated[Output, "The click log to write (.jsonl)."],
    store: StoreUrl = DEFAULT_STORE,
    revision: Annotated[int | None, "Revision of the experiment. (default: the newest)"] = None,
) -> None:
    """Write the closed lists of an experiment as a click log for 'structsvm interleave analyse' and 'structsvm clicks'.

    Lists on which the rankers agreed are written, too; 'analyse' leaves them out. Lists of the control, and lists whose
    window for clicks is not over, are not written.
    """
    from structsvm.live.counting.reporting import lines_of

    paths.check_output(output)
    n = 0
    with _open(store) as opened:
        experiment = _experiment(opened, key, revision)
        number, window_s = experiment.id, experiment.config["window_s"]
        n_pending = opened.n_after(number, opened.progress(number).watermark)
        with replacing(output) as file:
            for piece in lines_of(opened, experiment):
                file.write(piece)
                n += piece.count(b"\n")
        if n_forgotten := opened.n_forgotten(number):
            note(f"left out: {n_forgotten:,} impressions of units that were forgotten")
        if n_pending:
            note(
                f"left out: {n_pending:,} pending impressions: the running service closes each once its window of "
                f"{window_s:g} s for clicks is over; export again later"
            )
    typer.echo(f"{output}: {n:,} lists")


def backup(
    output: Annotated[Output, "The copy to write."],
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Copy a SQLite store while it is in use (for PostgreSQL use pg_dump). Keep a copy of FILE.secret, too."""
    from structsvm.live.contract.settings import sqlite_file
    from structsvm.live.store.sqlite import backup as copy

    path = sqlite_file(store)
    if path is None:
        raise BadInput("--store", "expected sqlite:///FILE, got PostgreSQL", "use pg_dump")
    _check_there(store)
    paths.check_output(output, [path])
    with working("copying") as status:
        copy(path, output, lambda left, pages: status.update(f"{1 - left / max(pages, 1):.0%}"))
    typer.echo(f"{output}: {output.stat().st_size:,} bytes")


def forget(
    key: Key,
    unit: Annotated[str, "<UNIT> Id of the user or session, as the site sends it."],
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Unlink UNIT from its impressions, and delete its queries; impossible once KEY is stopped."""
    from structsvm.live.contract.tokens import hashed_unit

    with _open(store) as opened:
        row = _experiment(opened, key, None)
        if row.unit_key is None:
            raise BadInput(
                key,
                "expected an experiment that has not stopped",
                "its unit key is deleted",
            )
        n = opened.forget(row.id, hashed_unit(row.unit_key, unit))
    typer.echo(f"{n:,} impressions" if n else f"no impression of {key} has the unit {unit!r}")


def clean(
    days: Annotated[int, typer.Option(min=0, help="Minimum number of days since the last impression.")] = 90,
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Delete the impressions and clicks of experiments that ended long ago; their statistics are kept."""
    with _open(store) as opened:
        n = opened.delete_closed(time.time_ns() // 1_000_000 - days * 86_400_000)
    typer.echo(f"{n:,} impressions deleted")


def migrate(store: StoreUrl = DEFAULT_STORE) -> None:
    """Migrate a store to the schema of this release; back it up first."""
    from structsvm.live.store.opening import prepare

    _check_there(store)
    before, after = prepare(store, upgrade=True)
    typer.echo(f"schema {'none' if before is None else before} -> {after}")


def key_add(scope: Annotated[str, "show, click, read or admin."], store: StoreUrl = DEFAULT_STORE) -> None:
    """Create a key and show it once."""
    from structsvm.live.contract.keys import new_key

    text, identity, hashed = new_key(scope)
    with _open(store) as opened:
        opened.add_key(identity, hashed, scope, time.time_ns() // 1_000_000)
    typer.echo(text)


def key_list(store: StoreUrl = DEFAULT_STORE) -> None:
    """List the keys, without their secrets."""
    with _open(store) as opened:
        for row in opened.callers():
            day = row["last_used_day"]
            used = "never used" if day is None else f"last used on {date(1970, 1, 1) + timedelta(days=day)}"
            typer.echo(f"{row['id']}  {row['scope']:<6}{used}")


def key_remove(
    identity: Annotated[str, "<ID> The part between sk_ and the secret."],
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Delete a key; workers refuse it within a second."""
    with _open(store) as opened:
        if not opened.delete_key(identity):
            raise BadInput(identity, "expected the id of a key; see structsvm live key list")


app = group(
    "Compare rankers on live traffic.",
    init,
    serve,
    create,
    check,
    export,
    backup,
    forget,
    clean,
    migrate,
)
app.add_typer(group("Manage the keys of callers.", add=key_add, list=key_list, remove=key_remove), name="key")


@contextmanager
def _open(url: str) -> Iterator[Store]:
    """Yield the store, which must exist and have the current schema; turn errors of the database into ``BadInput``."""
    import sqlite3

    from sqlalchemy.exc import SQLAlchemyError

    from structsvm.live.store.opening import open_database, prepare, without_password

    _check_there(url)
    prepare(url)
    with closing(open_database(url)) as opened:
        try:
            yield opened
        except (SQLAlchemyError, sqlite3.Error) as error:
            cause = getattr(error, "orig", None) or error
            raise BadInput(without_password(url), f"expected a usable store, got: {cause}") from None


def _check_there(url: str) -> None:
    """Raise if the file of a SQLite store does not exist."""
    from structsvm.live.contract.settings import sqlite_file

    path = sqlite_file(url)
    if path is not None and not path.exists():
        raise BadInput(
            path,
            f"expected a file to read, but it does not exist; create it with structsvm live init --store {url}",
        )
    if path is not None:
        paths.check_file(path)


def _experiment(store: Store, key: str, revision: int | None) -> ExperimentRow:
    every = store.experiments(newest=False)
    rows = [row for row in every if row.key == key and revision in (None, row.revision)]
    if not rows:
        known = ", ".join(dict.fromkeys(row.key for row in store.experiments())) or "none"
        raise BadInput(key, f"expected an experiment of this store ({known})")
    return rows[-1]


def _read_toml(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    paths.check_file(path)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadInput(path, f"expected TOML ({error})") from None


def _telling(status: Any, title: str) -> Callable[[int], None]:
    return lambda done: status.update(f"{title}: {done:,} impressions")
