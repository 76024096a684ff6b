"""Candidate sets with labels: JSON Lines, the AMBIENT files, and TREC judgments by subtopic."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from structsvm.common.candidates import CandidateSet, check_labels
from structsvm.common.checks import BadInput, counted
from structsvm.common.files import AnyPath, read_lines, replacing
from structsvm.common.portable.arrays import norm, products
from structsvm.common.tables.ids import IdColumn, id_word
from structsvm.protocols import Float
from structsvm.readers.qrels import Qrels
from structsvm.readers.runs import Run
from structsvm.readers.trec import rows_of_topics

_EXPECTED = '{"query": ..., "documents": [{"id": ..., "text" or "embedding": ..., "subtopics": [...]}]}'
_EACH_LINE = "expected JSON Lines, an object on each line"


class LabelledSets(NamedTuple):
    """Candidate sets and, for each, labels of shape (n_documents, n_subtopics) and the names of its subtopics.

    Examples
    --------
    See :func:`structsvm.readers.read_candidates` and :func:`structsvm.readers.write_candidates`.
    """

    sets: list[CandidateSet]
    labels: list[Float]
    subtopics: list[list[str]]

    def __repr__(self) -> str:
        return f"LabelledSets({counted(set=len(self.sets), document=sum(map(len, self.sets)))})"


def read_candidates(path: AnyPath, *, max_expansion: float | None = None) -> LabelledSets:
    """Read candidate sets from JSON Lines, one query with its documents per line.

    ``{"query": "aida", "documents": [{"id": "d1", "text": "...", "title": "...", "subtopics": ["opera"],
    "features": [0.3], "embedding": [0.6, 0.8], "cost": 120}]}``. Only ``documents`` is required, and, in each document,
    ``text`` (a string or a list of words) or ``embedding``. A set with embeddings uses their cosines, and also the
    texts if every document has a text (:meth:`CandidateSet.from_similarity <structsvm.CandidateSet.from_similarity>`).
    ``subtopics`` is a list of names, or an object with the grade of each name; if no document has this key, the set has
    no subtopics. If one document of a set with texts has a title, documents without one get an empty title; if one has
    a ``cost``, such as its number of tokens, all need one. Queries, ids and names of subtopics are strings or integers.
    Other keys are ignored.

    Parameters
    ----------
    path : path
        File of JSON Lines, plain or compressed.
    max_expansion : float, optional
        As for :func:`read_letor`.

    Returns
    -------
    LabelledSets

    Raises
    ------
    ValueError
        For an empty file. Also for a line that is not JSON of this form, an empty list of documents, duplicate ids, and
        grades or features that are not finite numbers; the message then names file and line.

    Examples
    --------
    >>> _ = Path("a.jsonl").write_text('{"query": "aida", "documents": [{"text": "by Verdi", "subtopics": ["opera"]}]}')
    >>> found = read_candidates("a.jsonl")
    >>> found, found.sets, found.labels, found.subtopics
    (LabelledSets(1 set, 1 document), [CandidateSet('aida': 1 document, text)], [array([[1.]])], [['opera']])
    """
    path = Path(path)
    labelled, (queries, documents) = LabelledSets([], [], []), (IdColumn(path, "query"), IdColumn(path, "id"))
    for number, line in read_lines(path, max_expansion=max_expansion):
        if not line.strip():
            continue
        place = f"{path}:{number}"

        def wrong(word: str, problem: str, remedy: str, place: str = place) -> BadInput:
            return BadInput(place, problem, remedy)

        try:
            parsed = _parse_set(line, queries, documents)
        except (ValueError, TypeError) as error:
            raise BadInput(place, str(error)) from error
        for column, value in zip(labelled, parsed, strict=True):
            column.append(value)  # type: ignore[attr-defined]
        documents.look(parsed[0].ids, wrong)
        queries.look([parsed[0].query or ""], wrong)
    if not labelled.sets:
        raise BadInput(path, f"expected lines {_EXPECTED}, got an empty file")
    queries.settle()
    documents.settle()
    for one in labelled.sets:
        for each in filter(None, (one, one.documents)):
            each.ids = documents.texts(each.ids).tolist()
            if each.query:
                each.query = queries.texts([each.query]).tolist()[0]
        one.check_ids()
    return labelled


def write_candidates(found: LabelledSets, path: AnyPath) -> None:
    """Write JSON Lines that :func:`read_candidates` reads back; sets of counts or similarities cannot be written.

    Parameters
    ----------
    found : LabelledSets
        Sets of texts or lists of words, labels of shape (n_documents, n_subtopics) each, and names of the subtopics,
        which are distinct within a set.
    path : path
        As for :func:`write_letor`.

    Examples
    --------
    >>> from structsvm import CandidateSet
    >>> one = CandidateSet(["jaguar in the jungle", "jaguar on the road"], query="jaguar", ids=["d1", "d2"])
    >>> write_candidates(LabelledSets([one], [np.eye(2)], [["animal", "car"]]), "sets.jsonl")
    >>> [line["subtopics"] for line in json.loads(Path("sets.jsonl").read_text())["documents"]]
    [['animal'], ['car']]
    """
    checked = check_labels(found.labels, [len(one) for one in found.sets])
    for i, (matrix, names) in enumerate(zip(checked, found.subtopics, strict=True)):
        if matrix.shape[1] != len(names) or len(set(names)) != len(names):
            raise BadInput(
                "subtopics",
                f"expected {matrix.shape[1]} distinct names, one per column of labels[{i}], got {names!r:.60}",
                at=f"[{i}]",
            )
    with replacing(Path(path)) as file:
        for i, (one, labels, names) in enumerate(zip(*found, strict=True)):
            if one.kind in ("counts", "similarity"):
                raise BadInput("sets", f"expected texts or lists of words, got {one.kind}", at=f"[{i}]")
            documents = []
            for d in range(len(one)):
                document: dict[str, Any] = {"id": one.ids[d], "text": one.texts[d]}
                if one.titles is not None:
                    document["title"] = one.titles[d]
                if one.features is not None:
                    document["features"] = [None if np.isnan(v) else float(v) for v in one.features[d]]
                if one.costs is not None:
                    document["cost"] = float(one.costs[d])
                grades = {name: float(g) for name, g in zip(names, labels[d], strict=True) if g != 0}
                document["subtopics"] = list(grades) if set(grades.values()) <= {1.0} else grades
                documents.append(document)
            line = ({} if one.query is None else {"query": one.query}) | {"documents": documents}
            file.write((json.dumps(line, ensure_ascii=False) + "\n").encode())


def read_ambient(
    folder: AnyPath, *, relevant_only: bool = False, max_expansion: float | None = None
) -> LabelledSets:
    """Read the AMBIENT data set (Carpineto and Romano 2008): ambiguous queries with 100 snippets each.

    Parameters
    ----------
    folder : path
        Folder with ``topics.txt``, ``results.txt``, ``subTopics.txt`` and ``STRel.txt``, plain or compressed (``.gz``).
    relevant_only : bool, default=False
        Whether to keep only documents that cover some subtopic, so that relevance plays no role (thesis 4.4). Topics
        without such documents are dropped.
    max_expansion : float, optional
        As for :func:`read_letor`.

    Returns
    -------
    LabelledSets
        Documents are in the order of the search engine. Subtopics are named by their descriptions; subtopics without
        documents are dropped.

    Raises
    ------
    ValueError
        If no topic remains. Also for a wrong number of columns, or an unknown id; the message then names file and line.
    OSError
        If a file is missing.

    Examples
    --------
    >>> _ = Path("topics.txt").write_text("ID\\tdescription\\n1\\tAida\\n")
    >>> _ = Path("subTopics.txt").write_text("ID\\tdescription\\n1.1\\tan opera\\n1.2\\ta cruise ship\\n")
    >>> rows = ["ID\\turl\\ttitle\\tsnippet", "1.1\\tu1\\tAida\\tby Verdi", "1.2\\tu2\\tAIDAsol\\tdecks"]
    >>> _ = Path("results.txt").write_text("\\n".join(rows))
    >>> _ = Path("STRel.txt").write_text("subTopicID\\tresultID\\n1.1\\t1.1\\n1.2\\t1.2\\n")
    >>> found = read_ambient(".")
    >>> found.sets[0], found.subtopics[0], found.labels[0].tolist()
    (CandidateSet('Aida': 2 documents, text), ['an opera', 'a cruise ship'], [[1.0, 0.0], [0.0, 1.0]])
    """
    folder = Path(folder)
    topics = {number: name for _, (number, name) in _columns(folder, "topics.txt", 2, max_expansion)}
    names = {number: name for _, (number, name) in _columns(folder, "subTopics.txt", 2, max_expansion)}
    rows: dict[str, list[tuple[str, str, str]]] = {}
    numbers: set[str] = set()
    for location, (number, _, title, snippet) in _columns(folder, "results.txt", 4, max_expansion):
        topic = number.split(".")[0]
        if topic not in topics:
            raise BadInput(location, f"expected a result of a topic in topics.txt, got {number!r}")
        if number in numbers:
            raise BadInput(location, f"expected each result once, got {number!r} again")
        numbers.add(number)
        rows.setdefault(topic, []).append((number, title, snippet))
    position = {row[0]: i for documents in rows.values() for i, row in enumerate(documents)}
    relations: dict[str, dict[str, list[int]]] = {}
    for location, (subtopic, result) in _columns(folder, "STRel.txt", 2, max_expansion):
        if subtopic not in names or result not in position:
            raise BadInput(location, f"expected a known subtopic and result, got {subtopic!r} and {result!r}")
        topic = result.split(".")[0]
        relations.setdefault(topic, {}).setdefault(subtopic, []).append(position[result])
    labelled = LabelledSets([], [], [])
    for topic, documents in rows.items():
        ids, titles, snippets = (list(column) for column in zip(*documents, strict=True))
        covered = relations.get(topic, {})
        labels = np.zeros((len(ids), len(covered)))
        for j, members in enumerate(covered.values()):
            labels[members, j] = 1.0
        columns = {"texts": snippets, "titles": titles, "ids": ids}
        _add(labelled, topics[topic], columns, labels, [names[s] for s in covered], relevant_only)
    if not labelled.sets:
        missing = "results that cover a subtopic" if relevant_only else "results"
        raise BadInput(folder, f"expected a topic with {missing}, got none")
    return labelled


def read_aspects(path: AnyPath, *, max_expansion: float | None = None) -> Qrels:
    """Read the aspect judgments of the TREC 6-8 interactive track: ``<topic>i <docid> <a 0 or 1 per aspect>``.

    Parameters
    ----------
    path : path
        File of judgments, plain or compressed.
    max_expansion : float, optional
        As for :func:`read_letor`.

    Returns
    -------
    Qrels
        Judgments with subtopics ``"1"``, ``"2"``, ...; a judged document has a row for each aspect of the topic.

    Raises
    ------
    ValueError
        If the file is empty, a line has a different form, or its number of aspects differs from that of the topic's
        first line; the message names file and line.

    Examples
    --------
    >>> _ = Path("aspects.txt").write_text("303i FT-1 110\\n303i FT-2 001\\n")
    >>> qrels = read_aspects("aspects.txt")
    >>> [(document, aspect) for document, aspect, grade in zip(qrels.docid, qrels.subtopic, qrels.grades) if grade]
    [('FT-1', '1'), ('FT-1', '2'), ('FT-2', '3')]
    """
    path = Path(path)
    rows: list[tuple[str, str, str, int]] = []
    widths: dict[str, int] = {}
    for number, line in read_lines(path, max_expansion=max_expansion):
        parts = line.split()
        if not parts:
            continue
        location = f"{path}:{number}"
        if len(parts) != 3 or set(parts[2]) - {"0", "1"}:
            raise BadInput(location, f"expected '<topic> <docid> <bits>', got {line.strip()[:60]!r}")
        topic = parts[0].removesuffix("i")
        width = widths.setdefault(topic, len(parts[2]))
        if width != len(parts[2]):
            raise BadInput(location, f"expected {width} aspects for topic {topic}, got {len(parts[2])}")
        rows += [(topic, parts[1], str(aspect), int(bit)) for aspect, bit in enumerate(parts[2], start=1)]
    if not rows:
        raise BadInput(path, "expected lines '<topic> <docid> <bits>', got an empty file")
    topics, documents, subtopics, grades = zip(*rows, strict=True)
    return Qrels.from_arrays(topics, documents, grades, subtopic=subtopics, duplicates="best")


def judged_candidates(
    qrels: Qrels,
    *,
    runs: Sequence[Run] = (),
    texts: Mapping[str, str] | None = None,
    titles: Mapping[str, str] | None = None,
    depth: int = 100,
    relevant_only: bool = False,
) -> LabelledSets:
    """Join judgments by subtopic with documents, run scores or both.

    Candidates of a topic are the first ``depth`` documents of every run; without runs, the judged documents that have
    a text. The scores in the runs become document features, NaN if a run lacks the document. Topics without
    candidates are dropped.

    Parameters
    ----------
    qrels : Qrels
        Judgments with subtopics: ``read_qrels(path, subtopics=True)``. A document covers a subtopic if its grade is
        above zero.
    runs : sequence of Run
        Runs whose documents are pooled; may be empty if there are ``texts``.
    texts, titles : mapping of docid to str, optional
        Texts of the documents; a document that is not in the mapping has an empty text.
    depth : int, default=100
        Number of documents taken from the top of each run.
    relevant_only : bool, default=False
        As for :func:`read_ambient`.

    Returns
    -------
    LabelledSets
        The ``query`` of each set is its topic.

    Examples
    --------
    >>> qrels = Qrels.from_arrays([1, 1], ["x", "y"], [1, 1], subtopic=["a", "b"])
    >>> found = judged_candidates(qrels, runs=[Run.from_arrays([1, 1], ["x", "z"], [2.0, 1.0])])
    >>> found.sets[0].ids, found.labels[0].tolist(), found.sets[0].features.tolist()
    (['x', 'z'], [[1.0, 0.0], [0.0, 0.0]], [[2.0], [1.0]])
    """
    from structsvm.readers.run_features import candidates as pool

    if qrels.subtopic is None:
        raise BadInput(
            "qrels", "expected judgments by subtopic", "read them with read_qrels(path, subtopics=True)"
        )
    if not runs and texts is None:
        raise BadInput("runs, texts", "expected runs, texts of documents or both, got neither")
    pooled: dict[str, tuple[list[str], Float | None]] = {}
    if runs:
        rows = pool(list(runs), depth=depth)
        for topic, here in rows_of_topics(rows).items():
            pooled[topic] = rows.docid[here].tolist(), rows.scores[here]
    labelled = LabelledSets([], [], [])
    for topic, here in rows_of_topics(qrels).items():
        judged = qrels.docid[here].tolist()
        if runs:
            ids, scores = pooled.get(topic, ([], None))
        else:
            ids, scores = [d for d in dict.fromkeys(judged) if texts is not None and d in texts], None
        names = list(dict.fromkeys(qrels.subtopic[here].tolist()))
        row_of, column_of = {d: i for i, d in enumerate(ids)}, {s: j for j, s in enumerate(names)}
        labels = np.zeros((len(ids), len(names)))
        for d, s, grade in zip(judged, qrels.subtopic[here], qrels.grades[here], strict=True):
            if d in row_of and grade > 0:
                labels[row_of[d], column_of[s]] = grade
        documents: list[Any] = [[] for _ in ids] if texts is None else [texts.get(d, "") for d in ids]
        heads = None if titles is None else [titles.get(d, "") for d in ids]
        columns = {"texts": documents, "titles": heads, "ids": ids, "features": scores}
        _add(labelled, topic, columns, labels, names, relevant_only)
    if not labelled.sets:
        raise BadInput(
            "qrels",
            "expected a judged topic with candidates, got none: check the ids of topics and documents",
        )
    return labelled


def _add(
    labelled: LabelledSets, query: str, columns: Any, labels: Float, subtopics: list[str], relevant_only: bool
) -> None:
    """Append the set of a query; with ``relevant_only``, without documents that cover no subtopic."""
    kept = np.flatnonzero(labels.any(axis=1) | (not relevant_only))
    if kept.size:
        given = {name: column for name, column in columns.items() if column is not None}
        chosen: dict[str, Any] = {name: [column[i] for i in kept] for name, column in given.items()}
        labelled.sets.append(CandidateSet(query=query, **chosen))
        labelled.labels.append(labels[kept])
        labelled.subtopics.append(subtopics)


def _parse_set(
    line: str, queries: IdColumn, ids_of_documents: IdColumn
) -> tuple[CandidateSet, Float, list[str]]:
    try:
        record = json.loads(line)
        if "\\ud" in line.lower():  # a lone surrogate is not a character and could not be written
            json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"expected Unicode text, got half of a surrogate pair: {error.object[error.start]!r}"
        ) from None
    except (
        ValueError,
        RecursionError,
    ) as error:  # also raised for an integer with more digits than Python accepts
        raise ValueError(f"{_EACH_LINE}, got {line.strip()[:60]!r} ({error})") from None
    if isinstance(record, list):
        raise ValueError(f"{_EACH_LINE}, got an array; jq -c '.[]' writes its entries one per line")
    if not (isinstance(record, dict) and isinstance(record.get("documents"), list)):
        raise ValueError(f"expected {_EXPECTED}, got {line.strip()[:60]!r}")
    documents = record["documents"]
    # the first document determines whether all documents need an embedding, and whether all need a text
    embedded = bool(documents) and isinstance(documents[0], dict) and "embedding" in documents[0]
    spoken = not embedded or "text" in documents[0]
    for i, document in enumerate(documents):
        if not isinstance(document, dict) or (spoken and not isinstance(document.get("text"), (str, list))):
            raise _wrong(i, "an object with a text or an embedding", document)
    titles = None
    if spoken and any("title" in d for d in documents):
        empty: Any = "" if isinstance(documents[0]["text"], str) else []
        titles = [d.get("title") or empty for d in documents]
    features = None
    if any("features" in d for d in documents):
        features = [d.get("features") for d in documents]  # null becomes NaN
        for i, row in enumerate(features):
            if not isinstance(row, list):
                raise _wrong(i, "a list of features", row)
            if len(row) != len(features[0]):
                raise _wrong(i, f"{counted(feature=len(features[0]))} as documents[0] has", row)
    costs = None
    if any("cost" in d for d in documents):
        costs = [_number(d.get("cost"), f"documents[{i}], cost", "cost") for i, d in enumerate(documents)]
    grades: list[dict[str, float]] = []
    numbered: dict[str, bool] = {}
    for i, document in enumerate(documents):
        stated = document.get("subtopics")
        if stated is None:
            stated = []
        if isinstance(stated, dict):
            field = f"documents[{i}]: subtopic"
            grades.append(
                {_name(s, field, numbered): _number(g, f"{field} {s!r}", "grade") for s, g in stated.items()}
            )
        elif isinstance(stated, list):
            grades.append(
                {_name(s, f"documents[{i}], subtopics[{j}]", numbered): 1.0 for j, s in enumerate(stated)}
            )
        else:
            raise _wrong(i, "subtopics as a list or object", stated)
    # one column per subtopic, in the order in which they first occur
    names = list(dict.fromkeys(s for graded in grades for s in graded))
    labels = np.array([[graded.get(s, 0.0) for s in names] for graded in grades])
    labels = labels.reshape(len(documents), len(names))
    ids = [
        str(i) if d.get("id") is None else _id(d["id"], f"documents[{i}], id", ids_of_documents)
        for i, d in enumerate(documents)
    ]
    query = record.get("query")
    for word in (*ids, "" if query is None else str(query)):
        # NUL is refused as in every other file, because NumPy drops trailing NULs of strings
        if "\0" in word:
            raise ValueError(f"expected ids without NUL characters, got {word!r:.60}; remove them")
    # embeddings give a set of similarities; the texts, if any, are stored as a separate set
    described: dict[str, Any] = {
        "ids": ids,
        "features": features,
        "query": None if query is None else _id(query, "query", queries),
        "costs": costs,
    }
    texts = CandidateSet([d["text"] for d in documents], titles=titles, **described) if spoken else None
    if not embedded and texts is not None:
        return texts, labels, names
    return CandidateSet.from_similarity(_cosines(documents), documents=texts, **described), labels, names


def _cosines(documents: list[dict[str, Any]]) -> Float:
    """Return the cosines of the documents' embeddings."""
    rows: list[Float] = []
    for i, document in enumerate(documents):
        try:
            row = np.array(document.get("embedding"), dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            row = np.zeros(0)
        length = norm(row) if row.ndim == 1 and np.isfinite(row).all() else 0.0
        if not 0.0 < length < np.inf or (rows and row.shape != rows[0].shape):
            raise _wrong(
                i,
                f"an embedding of {len(rows[0]) if rows else 'some'} numbers, not all 0",
                document.get("embedding"),
            )
        rows.append(row / length)
    # computed row by row in fixed order, because sums by BLAS depend on the processor
    unit = np.stack(rows)
    return np.stack([products(unit, row) for row in rows])


def _wrong(i: int, expected: str, got: object, remedy: str = "") -> BadInput:
    return BadInput("documents", f"expected {expected}, got {json.dumps(got)[:60]}", remedy, at=f"[{i}]")


def _name(value: object, field: str, numbered: dict[str, bool] | None = None) -> str:
    """Return a string, or an integer as a string; ``numbered`` holds the earlier names, to distinguish 1 from "1"."""
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise ValueError(f"{field}: expected a string or an integer, got {json.dumps(value)[:60]}")
    name = str(value)
    if numbered is not None and numbered.setdefault(name, isinstance(value, int)) != isinstance(value, int):
        raise ValueError(
            f"{field}: expected either {name} or {name!r} in a set, got both; write them all as strings"
        )
    return name


def _id(value: Any, field: str, column: IdColumn) -> str:
    """Return an id as text."""
    try:
        if (word := id_word(column, value)) is not None:
            return word
    except BadInput as error:
        raise ValueError(f"{field}: {error.problem}; {error.remedy}") from None
    raise ValueError(f"{field}: expected an int or a string, got {value!r}")


def _number(value: Any, field: str, what: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = np.nan
    if not np.isfinite(number):
        raise ValueError(f"{field}: expected a finite number as {what}, got {value!r:.60}")
    return number


def _columns(folder: Path, name: str, n: int, max_expansion: float | None) -> Iterator[tuple[str, list[str]]]:
    """Yield the tab-separated rows after the header, each with its file and line."""
    path = folder / name if (folder / name).exists() else folder / f"{name}.gz"
    for number, line in read_lines(path, max_expansion=max_expansion):
        if number == 1 or not line.strip():
            continue
        columns = line.split("\t")
        if len(columns) != n:
            raise BadInput(
                f"{path}:{number}",
                f"expected {n} columns separated by tabs, got {len(columns)}: {line[:60]!r}",
            )
        yield f"{path}:{number}", columns
