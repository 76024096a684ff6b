"""Candidate sets: the documents from which some are chosen for a query, and the elements that each document covers."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from structsvm.common.checks import BadInput, check_whole, counted
from structsvm.common.row_checks import check_sparse
from structsvm.common.tables.ids import id_texts
from structsvm.protocols import Float, Int

Kind = Literal["text", "tokens", "counts", "similarity"]

_LARGEST_COUNT = 2.0**53
"""Integers are exact in float64 up to this value, and their sums do not overflow."""

_SIMILARITY_TOLERANCE = 1e-4
"""Largest accepted error of a similarity: embeddings are often in single precision."""


class CandidateSet:
    """The candidate documents of one query; immutable.

    Parameters
    ----------
    texts : sequence of str, sequence of token lists, or sparse/dense matrix (n_documents, n_words)
        The documents as texts, lists of words (used unchanged), or word counts. A document with an empty text
        covers nothing.
    titles : same types as ``texts``, optional
        One title per document; a matrix has the same columns (words) as ``texts``.
    ids : sequence of str or int, optional
        Distinct ids of the documents; ``0 .. n-1`` by default.
    features : array-like of float, shape (n_documents, n_features), optional
        Document features, such as scores of retrieval systems or similarities of embeddings. Higher values are better;
        NaN means that the system did not retrieve the document.
    query : str, optional
        Text of the query, which Okapi BM25 requires, or a name or number of the query.
    costs : array-like of float, shape (n_documents,), optional
        Costs of the documents, > 0, such as numbers of tokens: ``predict(sets, costs=[one.costs for one in sets],
        budget=450)``.
    vocabulary : sequence of str, optional
        Names of the columns when ``texts`` is a matrix; only explanations use them.

    Attributes
    ----------
    kind : {"text", "tokens", "counts", "similarity"}
        Form in which the documents were given.
    texts, titles : list, or CSR matrix of float64, or None
    similarity : ndarray of float64, shape (n_documents, n_documents), or None
        Only in sets from :meth:`from_similarity`.
    documents : CandidateSet or None
        Texts that accompany the similarities, if given.
    ids : list of str
    features : ndarray of float64, shape (n_documents, n_features), or None
    query : str or None
    costs : ndarray of float64, shape (n_documents,), or None
    vocabulary : list of str or None

    Examples
    --------
    >>> candidates = CandidateSet(["an opera by Verdi", "a cruise ship"], ids=["d1", "d2"])
    >>> candidates, len(candidates)
    (CandidateSet(2 documents, text), 2)
    """

    def __init__(
        self,
        texts: Any,
        titles: Any = None,
        ids: Any = None,
        features: Any = None,
        *,
        query: str | None = None,
        costs: Any = None,
        vocabulary: Sequence[str] | None = None,
    ) -> None:
        self.kind, self.texts = _documents(texts, "texts")
        self.similarity: Float | None = None
        self.documents: Self | None = None
        n = _length(self.texts)
        if n == 0:
            raise BadInput("texts", "expected at least one document, got an empty candidate set")
        self.titles = None
        if titles is not None:
            kind, self.titles = _documents(titles, "titles")
            if kind != self.kind:
                raise TypeError(f"titles: expected {self.kind} as for texts, got {kind}")
            _check_length("titles", _length(self.titles), n, "documents")
            if kind == "counts" and self.titles.shape[1] != self.texts.shape[1]:
                raise BadInput(
                    "titles",
                    f"expected the {self.texts.shape[1]} columns of texts, got {self.titles.shape[1]}",
                )
        self.ids = id_texts("ids", range(n) if ids is None else ids, as_written=True)
        _check_length("ids", len(self.ids), n, "documents")
        self.check_ids()
        self.features = None if features is None else _features(features, n)
        self.query = None if query is None else str(query)
        self.costs = None if costs is None else _check_costs(self, costs)
        self.vocabulary = None if vocabulary is None else [str(word) for word in vocabulary]
        if self.vocabulary is not None:
            if self.kind != "counts":
                raise BadInput("vocabulary", f"applies only to a matrix of counts, got {self.kind}")
            _check_length("vocabulary", len(self.vocabulary), self.texts.shape[1], "columns")

    @classmethod
    def from_similarity(
        cls,
        similarity: Any,
        ids: ArrayLike | None = None,
        features: object = None,
        *,
        query: str | None = None,
        costs: ArrayLike | None = None,
        documents: Self | None = None,
    ) -> Self:
        """Return a candidate set from pairwise similarities, such as the cosines of embeddings.

        Methods that compare documents accept this set like any other: SVMDiv with its ``neighbours`` levels, MMR,
        facility location and xQuAD. Methods that read words raise an error.

        Parameters
        ----------
        similarity : array-like, shape (n_documents, n_documents)
            Symmetric, from -1 to 1, with a diagonal of 1: ``E @ E.T`` of embeddings ``E`` with rows of length 1.
        ids, features, query, costs
            As for :class:`CandidateSet`; taken from ``documents`` by default.
        documents : CandidateSet, optional
            The same documents as texts: :class:`~structsvm.DiverseRanker` uses both their words and the similarities.

        Examples
        --------
        >>> embeddings = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> CandidateSet.from_similarity(embeddings @ embeddings.T)
        CandidateSet(3 documents, similarity)
        """
        check_sparse(similarity, "similarity")
        matrix = np.array(_as_numbers(similarity, "similarity", "a square matrix of numbers"))
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise _no_similarity(f"expected a square matrix, got shape {matrix.shape}")
        # comparisons with NaN are False, so that each condition also rejects NaN
        if not (np.abs(matrix) <= 1 + _SIMILARITY_TOLERANCE).all():
            raise _no_similarity("expected numbers from -1 to 1")
        if (asymmetric := np.argwhere(np.abs(matrix - matrix.T) > _SIMILARITY_TOLERANCE)).size:
            i, j = asymmetric[0].tolist()
            raise _no_similarity(
                f"expected symmetry, got {matrix[i, j]:g} at [{i}, {j}], {matrix[j, i]:g} at [{j}, {i}]"
            )
        if (off := np.abs(matrix.diagonal() - 1.0)).max(initial=0.0) > _SIMILARITY_TOLERANCE:
            i = int(off.argmax())
            raise _no_similarity(f"expected 1 on the diagonal, got {matrix[i, i]:.6g} at [{i}, {i}]")
        # numbers within the tolerance are made exact, because methods rely on exact bounds
        np.clip(matrix, -1.0, 1.0, out=matrix)
        np.fill_diagonal(matrix, 1.0)
        if documents is not None:
            if len(documents) != len(matrix) or documents.kind == "similarity":
                raise BadInput("documents", f"expected {len(matrix)} texts, got {documents!r}")
            ids = documents.ids if ids is None else ids
            features = documents.features if features is None else features
            query = documents.query if query is None else query
            costs = documents.costs if costs is None else costs
        candidates = cls([""] * len(matrix), ids=ids, features=features, query=query, costs=costs)
        candidates.kind, candidates.texts = "similarity", None
        candidates.similarity, candidates.documents = matrix, documents
        return candidates

    def check_ids(self) -> None:
        """Raise unless the ids are distinct."""
        if len(set(self.ids)) != len(self.ids):
            twice = next(i for i, times in Counter(self.ids).items() if times > 1)
            raise BadInput("ids", f"expected distinct ids, got {twice!r} twice")

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def fingerprint(self) -> str:
        """Return a digest of the documents' texts (or similarities), as 16 hexadecimal digits.

        Sets with the same documents have the same fingerprint, whatever their order, ids, titles and features. A model
        stores the fingerprints of its training sets.

        Examples
        --------
        >>> CandidateSet(["a", "b"]).fingerprint == CandidateSet(["b", "a"], ids=[7, 8]).fingerprint
        True
        """
        # the bytes of each document, in a form that does not depend on the order of the documents
        if self.similarity is not None:
            # -0.0 + 0.0 is 0.0
            rows = [row.tobytes() for row in np.sort(self.similarity + 0.0, axis=1).astype("<f8")]
        elif self.kind == "counts":
            entries = [
                (self.texts.indices[a:b], self.texts.data[a:b])
                for a, b in zip(self.texts.indptr[:-1], self.texts.indptr[1:], strict=True)
            ]
            rows = [
                columns.astype("<i8").tobytes() + data.astype("<f8").tobytes() for columns, data in entries
            ]
        else:
            texts = (text if isinstance(text, str) else json.dumps(list(text)) for text in self.texts)
            rows = [text.encode(errors="surrogatepass") for text in texts]
        return hashlib.sha256(b"".join(sorted(hashlib.sha256(row).digest() for row in rows))).hexdigest()[:16]

    def __repr__(self) -> str:
        name = "" if self.query is None else f"{self.query[:40]!r}: "
        extra = "" if self.features is None else f", {counted(feature=self.features.shape[1])}"
        kind = self.kind + (f" and {self.documents.kind}" if self.documents is not None else "")
        return f"CandidateSet({name}{counted(document=len(self))}, {kind}{extra})"


def _no_similarity(problem: str) -> BadInput:
    return BadInput("similarity", problem, "for embeddings E whose rows have length 1, pass E @ E.T")


@dataclass(frozen=True)
class Coverage:
    """The elements that each document of a candidate set covers: the input of the coverage oracle.

    An element is a word at an importance level. Elements of one level whose document frequencies lie between the same
    thresholds share a bin, and all elements of a bin have the same benefit. An element that occurs in a single document
    appears only in ``counts``: no other document can cover it first. Document ``d`` has the shared elements
    ``doc_elements[doc_start[d]:doc_start[d + 1]]``; element ``e`` is in bin ``element_bin[e]`` and occurs in the
    documents ``element_documents[element_start[e]:element_start[e + 1]]``.
    """

    counts: NDArray[np.int32]
    doc_start: Int
    doc_elements: NDArray[np.int32]
    element_start: Int
    element_documents: NDArray[np.int32]
    element_bin: NDArray[np.int32]
    features: Float

    @property
    def n_documents(self) -> int:
        return int(self.counts.shape[0])

    @property
    def n_bins(self) -> int:
        return int(self.counts.shape[1])


def check_sets(sets: Any) -> list[CandidateSet]:
    """Return the candidate sets as a list; raise TypeError for anything else, in particular for a single set."""
    if isinstance(sets, CandidateSet):
        raise TypeError("sets: expected a list of CandidateSet, got a single one; write [candidates]")
    checked = list(sets)
    if not checked:
        raise BadInput("sets", "expected at least one CandidateSet, got none")
    for i, candidates in enumerate(checked):
        if not isinstance(candidates, CandidateSet):
            raise TypeError(f"sets[{i}]: expected a CandidateSet, got {type(candidates).__name__}")
    return checked


def check_labels(labels: ArrayLike, n_documents: Sequence[int] | None = None) -> list[NDArray[np.bool_]]:
    """Return labels as boolean matrices (n_documents, n_subtopics): a document covers a subtopic if its label is > 0.

    Subtopics that no document covers are kept. ``n_documents`` holds the number of documents of each set, if known.
    """
    return [values > 0 for values in check_grades(labels, n_documents)]


def check_degrees(labels: ArrayLike, n_documents: Sequence[int]) -> list[Float]:
    """Return the degrees, from 0 to 1, to which documents cover subtopics, as matrices (n_documents, n_subtopics)."""
    matrices = [np.asarray(values, dtype=np.float64) for values in check_grades(labels, n_documents)]
    for i, values in enumerate(matrices):
        if values.size and not (values.min() >= 0 and values.max() <= 1):
            raise _bad_labels(
                i,
                f"expected degrees from 0 to 1, got {values.min():g} to {values.max():g}",
                "divide grades by the highest one",
            )
    return matrices


def check_grades(labels: Any, n_documents: Sequence[int] | None = None) -> list[NDArray[Any]]:
    """Return labels as finite numbers, in matrices (n_documents, n_subtopics)."""
    try:
        matrices = list(labels)
    except TypeError:
        raise TypeError(f"labels: expected one matrix for each candidate set, got {labels!r:.60}") from None
    if n_documents is not None:
        _check_length("labels", len(matrices), len(n_documents), "candidate sets")
    checked = []
    for i, matrix in enumerate(matrices):
        check_sparse(matrix, f"labels[{i}]")
        try:
            values = np.asarray(matrix.toarray() if bool(sparse.issparse(matrix)) else matrix)
        except ValueError:
            raise _bad_labels(
                i, "expected rows of equal length, one entry for each subtopic, got different lengths"
            ) from None
        if values.ndim != 2 or values.dtype.kind not in "buif":
            raise _bad_labels(
                i,
                f"expected numbers of shape (n_documents, n_subtopics), got {values.dtype} of shape {values.shape}",
                "features.soft_subtopics turns marks into labels" if values.ndim == 1 else "",
            )
        if n_documents is not None and values.shape[0] != n_documents[i]:
            raise _bad_labels(
                i, f"expected {n_documents[i]} rows, one for each document, got shape {values.shape}"
            )
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise _bad_labels(i, "expected finite values, got NaN or infinity")
        checked.append(values)
    return checked


def _check_length(argument: str, n_given: int, n: int, what: str) -> None:
    """Raise unless there is one entry for each of ``n`` documents, columns or sets."""
    if n_given != n:
        raise BadInput(argument, f"expected one for each of the {n} {what}, got {n_given}")


def _bad_labels(i: int, problem: str, remedy: str = "") -> BadInput:
    return BadInput("labels", problem, remedy, at=f"[{i}]")


class Limits(NamedTuple):
    """Maximum number of documents chosen from a set, and maximum sum of their costs, which are 1 by default."""

    most: int
    costs: Float
    budget: float = np.inf


def check_limits(
    sets: Sequence[CandidateSet], k: object, usual: int, costs: Any = None, budget: Any = None
) -> list[Limits]:
    """Return the limits of each set: at most ``k`` documents; by default the ``usual`` number or, with a budget, any
    number."""
    if k is not None or costs is None:
        k = check_whole("k", usual if k is None else k)
    # None: any number of documents, as long as the budget lasts
    most = [len(one) if k is None else min(k, len(one)) for one in sets]
    if costs is None and budget is None:
        return [Limits(n, np.ones(len(one))) for n, one in zip(most, sets, strict=True)]
    if costs is None or budget is None:
        raise BadInput("costs and budget", "expected both or neither")
    try:
        costs_of_sets = list(costs)
    except TypeError:
        raise TypeError(f"costs: expected one list for each set, got {costs!r:.60}") from None
    _check_length("costs", len(costs_of_sets), len(sets), "sets")
    limits = _as_numbers(budget, "budget")
    if limits.shape not in ((), (len(sets),)):
        raise BadInput(
            "budget", f"expected a number, or one for each of the {len(sets)} sets, got shape {limits.shape}"
        )
    if not (np.isfinite(limits) & (limits >= 0)).all():
        raise BadInput("budget", f"expected finite numbers >= 0, got {limits.tolist()!r:.60}")
    prices = [
        _check_costs(one, cost, f"[{i}]")
        for i, (one, cost) in enumerate(zip(sets, costs_of_sets, strict=True))
    ]
    return list(map(Limits, most, prices, np.broadcast_to(limits, len(sets)).tolist()))


def _check_costs(candidates: CandidateSet, costs: ArrayLike, at: str = "") -> Float:
    prices = _as_numbers(costs, f"costs{at}")
    if prices.shape != (len(candidates),):
        raise BadInput(
            "costs",
            f"expected {len(candidates)} finite numbers > 0, one for each document, got shape {prices.shape}",
            at=at,
        )
    bad = np.flatnonzero(~(np.isfinite(prices) & (prices > 0)))
    if bad.size:
        raise BadInput(
            "costs",
            f"expected finite numbers > 0, got {prices[bad[0]]:g} for document {candidates.ids[bad[0]]!r}",
            "leave out empty documents, or give them a cost",
            at=f"{at}[{bad[0]}]",
        )
    return prices


def _as_numbers(values: ArrayLike, argument: str, expected: str = "numbers") -> Float:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise BadInput(argument, f"expected {expected}, got {values!r:.60}") from None


def check_chosen(chosen: object, n_documents: int, argument: str = "chosen") -> Int:
    """Return distinct document indices as int64; raise for other values."""
    rows = np.asarray(chosen)
    if rows.size == 0:
        return np.zeros(0, dtype=np.int64)
    problem = ""
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        problem = f"expected a list of document indices, got {rows.dtype} of shape {rows.shape}"
    elif rows.min() < 0 or rows.max() >= n_documents:
        problem = f"expected indices from 0 to {n_documents - 1}, got {rows.min()} to {rows.max()}"
    elif np.unique(rows).size != rows.size:
        problem = f"expected each document once, got {rows.tolist()}"
    if problem:
        raise BadInput(argument, problem)
    return rows.astype(np.int64)


def _documents(value: Any, argument: str) -> tuple[Kind, Any]:
    if bool(sparse.issparse(value)) or (isinstance(value, np.ndarray) and value.dtype.kind in "buif"):
        if value.ndim != 2:
            raise BadInput(argument, f"expected a matrix (n_documents, n_words), got shape {value.shape}")
        check_sparse(value, argument)
        # a copy in canonical form: one entry per distinct word of a document, and no zeros
        counts = sparse.csr_matrix(value, dtype=np.float64, copy=True)
        counts.sum_duplicates()
        counts.eliminate_zeros()
        if counts.nnz and not (counts.data.min() >= 0 and counts.data.max() <= _LARGEST_COUNT):
            raise BadInput(
                argument,
                f"expected finite counts >= 0 (and up to 2**53), got {counts.data.min():g} to {counts.data.max():g}",
            )
        return "counts", counts
    if isinstance(value, str):
        raise TypeError(f"{argument}: expected a list of texts, got a single text")
    if not isinstance(value, Iterable) or isinstance(value, (bytes, Mapping)):
        raise TypeError(f"{argument}: expected a list of texts, got {type(value).__name__}")
    documents = list(value)
    if all(isinstance(d, str) for d in documents):
        return "text", documents
    of_text = isinstance(documents[0], str)
    for i, document in enumerate(documents):
        words = isinstance(document, (list, tuple, np.ndarray)) and all(isinstance(t, str) for t in document)
        if not (isinstance(document, str) if of_text else words):
            raise TypeError(
                f"{argument}[{i}]: expected all documents as str, or all as lists of str, got {document!r:.60}"
            )
    return "tokens", [list(d) for d in documents]


def _features(features: Any, n: int) -> Float:
    check_sparse(features, "features")
    dense = features.toarray() if bool(sparse.issparse(features)) else features
    expected = f"numbers of shape ({n}, n_features), NaN for missing"
    values = np.array(_as_numbers(dense, "features", expected))  # a copy: candidate sets are immutable
    if values.ndim != 2 or values.shape[0] != n:
        raise BadInput("features", f"expected shape ({n}, n_features), got {values.shape}")
    if np.isinf(values).any():
        row, column = np.argwhere(np.isinf(values))[0]
        raise BadInput(
            "features", "expected a finite number, or NaN for missing, got infinity", at=f"[{row}, {column}]"
        )
    return values


def _length(documents: Any) -> int:
    return int(documents.shape[0]) if hasattr(documents, "shape") else len(documents)
