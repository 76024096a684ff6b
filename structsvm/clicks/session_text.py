"""Session text: ``query<TAB>d1,...,dn : c1 , c2;``, the format of public web-search sessions."""

from os import PathLike
from pathlib import Path

from structsvm.clicks.batches import Batches
from structsvm.clicks.cells import MAX_POSITION, ClickCells
from structsvm.common.checks import BadInput
from structsvm.common.files import read_lines, shorten


def read_sessions(path: str | PathLike[str], *, max_position: int = MAX_POSITION) -> ClickCells:
    """Read session text (plain, gzip, bzip2 or xz).

    A line holds sessions that end with ``;``: the query, a tab, the shown documents separated by commas, a colon, and
    the clicked documents in the order of clicks. Clicks on documents that were not shown are left out and counted;
    repeated clicks on a document of a list count once. Names with a tab, a colon, a comma or ``;`` are ambiguous: a
    session with additional tabs or colons is refused.

    Parameters
    ----------
    path : path
        The file to read.
    max_position : int, default=1000
        Impressions beyond this position are left out and counted.

    Returns
    -------
    ClickCells
        With sessions.

    Raises
    ------
    ValueError
        If a session does not have this form; the message names the file and the line.

    Notes
    -----
    This is the format of the sample data of PyClick: sessions of Yandex's Relevance Prediction Challenge (WSCD 2012).

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "sessions.txt"
    ...     _ = path.write_text("q1\\ta,b : b , x; q1\\tb,a :;\\n")
    ...     cells = read_sessions(path)
    >>> cells, dict(cells.dropped)
    (ClickCells(1 query, 2 rows, 4 cells, 4 shows, 1 click), {'click on a document that was not shown': 1})
    """
    path = Path(path)
    batches = Batches(str(path), max_position)
    for number, line in read_lines(path):
        for session in line.split(";"):
            text = session.strip()
            if not text:
                continue
            query, tab, rest = text.partition("\t")
            shown, colon, clicks = rest.partition(":")
            documents = [d.strip() for d in shown.split(",")]
            # more tabs or colons mean another format, or document names that would be truncated at their colons
            if not (tab and colon and query and all(documents)) or "\t" in rest or ":" in clicks:
                raise BadInput(
                    f"{path}:{number}", f"expected '<query><TAB>d1,d2,... : c1 , c2;', got {shorten(text)}"
                )
            chosen = {c.strip() for c in clicks.split(",") if c.strip()}
            batches.dropped.count("click on a document that was not shown", len(chosen - set(documents)))
            batches.add(query, documents, [d in chosen for d in documents])
    return batches.cells()
