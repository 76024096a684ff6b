"""``--dask``: train, predict and evaluate on a Dask cluster."""

import contextlib
from collections.abc import Iterator
from typing import Annotated, Any

from structsvm import readers
from structsvm.cli.files import Columns, Table
from structsvm.common.checks import BadInput
from structsvm.common.extras import extra, needed
from structsvm.common.tables.source import Source

_SECONDS = 30
"""Seconds to wait for a scheduler."""

Dask = Annotated[
    str | None,
    "Work on a Dask cluster: 'local' starts one on this machine, tcp://host:port is the address of a scheduler. "
    "DATA are then Parquet files, texts or stores that every worker can read under the same path. "
    "(default: in this process)",
]
Groups = Annotated[
    str,
    "With --dask: how to treat queries split between partitions: refuse, mend (move rows to the "
    "neighbouring partition) or shuffle.",
]


@contextlib.contextmanager
def connecting(address: str) -> Iterator[Any]:
    """Yield a client of the cluster at an address; ``"local"`` starts one that lasts as long as the command."""
    with needed("--dask", extra("dask")):
        from distributed import Client, LocalCluster
    if address == "local":
        with contextlib.ExitStack() as stack:
            cluster = LocalCluster(dashboard_address=":0")
            stack.callback(_close, cluster)
            yield stack.enter_context(Client(cluster, set_as_default=False))
        return
    if "://" not in address:
        raise BadInput(
            f"--dask {address}", "expected local, or the address of a scheduler such as tcp://host:8786"
        )
    try:
        client = Client(address, timeout=_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise BadInput(f"--dask {address}", f"expected a scheduler, got no answer ({error})") from None
    with client:
        yield client


def _close(cluster: Any) -> None:
    """Close a local cluster; ignore workers that take longer to end than Dask waits."""
    with contextlib.suppress(TimeoutError):
        cluster.close()


def _columns(source: Source, columns: Columns) -> dict[str, str | None]:
    """Return the columns of labels and ids; None unless the data are tables."""
    if columns.zero_based:
        raise BadInput("--zero-based", "cannot be combined with --dask")
    if source.is_table and source.kind != "parquet":
        raise BadInput(
            source.path,
            "expected Parquet files, LETOR text or stores with --dask, got another table",
            "convert it",
        )
    return {"y": columns.label, "qid": columns.qid} if source.kind == "parquet" else {"y": None, "qid": None}


def train_there(client: Any, source: Source, table: Table, groups: Any, **options: Any) -> Any:
    """Return a fitted ``DaskStructuralRanker``."""
    from structsvm.dask import DaskStructuralRanker

    with _saying():
        return DaskStructuralRanker(client=client, groups=groups, **options).fit(
            source, **_columns(source, table), features=table.names
        )


def _ranker(client: Any, model: Any, groups: Any = "mend") -> Any:
    """Return a saved ranker in a form that works on a cluster."""
    from structsvm.dask import DaskStructuralRanker

    if not hasattr(model, "coef_") or hasattr(model, "leaves_"):
        raise BadInput(
            "--dask", f"expected a linear model, got a {type(model).__name__}", "predict without --dask"
        )
    there = DaskStructuralRanker(
        getattr(model, "loss", "map"),
        relevance=model.relevance,
        scale=getattr(model, "scale", "none"),
        client=client,
        groups=groups,
    )
    there.coef_, there.n_features_in_ = model.coef_, model.n_features_in_
    there.scaler_ = getattr(model, "scaler_", None)
    if hasattr(model, "feature_names_in_"):
        there.feature_names_in_ = model.feature_names_in_
    return there


def predict_there(client: object, model: object, source: Source, columns: Columns) -> Iterator[Any]:
    """Yield the scores of each part of the data, in the order of the rows."""
    if source.kind == "store" and readers.open_store(source).order is not None:
        raise BadInput(
            source.path,
            "expected a store with rows in the order of its source, got a different order",
            "predict without --dask",
        )
    with _saying():
        yield from _ranker(client, model).score_files(source, **_columns(source, columns))


def evaluate_there(
    client: object,
    model: object,
    source: Source,
    columns: Columns,
    groups: str,
    metrics: list[str],
    **options: object,
) -> list[Any]:
    """Return the results of each measure for the ranking by the model."""
    with _saying():
        found = _ranker(client, model, groups).evaluate(
            source, **_columns(source, columns), metrics=metrics, **options
        )
    return list(found.values())


@contextlib.contextmanager
def _saying() -> Iterator[None]:
    """Turn a ``ClusterError`` into an error of ``--dask``, which the command prints as one line."""
    from structsvm.dask.cluster import ClusterError

    try:
        yield
    except ClusterError as error:
        raise BadInput("--dask", f"{error}") from None
    except BadInput as error:
        raise error.recommending("label", instead_of="y") from None
