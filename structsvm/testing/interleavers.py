"""``check_interleaver``: the properties that an interleaving method must have."""

import copy
import itertools
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec.structs import replace

from structsvm.common.checks import check_choice
from structsvm.protocols import Interleaver
from structsvm.testing.require import Requirement


def check_interleaver(
    interleaver: Any,
    *,
    multileaves: bool = True,
    prefix: bool = True,
    fair: str | None = "outcome",
    random_state: int = 0,
) -> None:
    """Check an interleaving method (:class:`structsvm.online.interleaving.Interleaver`).

    Lists are merges without duplicates, of the given length. ``show`` draws from ``distribution``. Another object of
    the class assigns the same credit to a logged record read from JSON. Lists of different lengths that are credited
    together have the same credit as alone, to the last digit, and statistics within ``bound``. If the rankers are
    permuted, credits and outcomes are permuted in the same way. Identical rankings have the same credit on average.
    Clicks that ignore the documents favour no ranker, in the sense of ``fair``. Invalid input raises a ``ValueError``.
    Expectations are sums over all lists and clicks.

    Parameters
    ----------
    interleaver : Interleaver
        Method to check.
    multileaves : bool, default=True
        Whether the method accepts more than two rankings; otherwise it must refuse three.
    prefix : bool, default=True
        Whether each document of a list is, in some ranking, the first document that is not listed above it.
    fair : {"outcome", "credit", "even credit"} or None
        The quantity that is zero on average if clicks ignore the documents. "outcome" means the outcome of every pair
        and the difference in credit; "credit" the difference in credit at each rank (unless the record has ``slack``).
        "even credit" means the difference in credit if clicks are equally likely at all ranks. None skips the check
        (for a biased method).
    random_state : int, default=0
        Seed.

    Examples
    --------
    >>> from structsvm.online.interleaving import TeamDraft
    >>> check_interleaver(TeamDraft())
    """
    check_choice("fair", fair, ("outcome", "credit", "even credit", None))
    require = Requirement(repr(interleaver))
    require.members(Interleaver, interleaver)
    fresh = copy.deepcopy(interleaver)
    # rankings that are rotated, equal, disjoint, nearly equal, of different lengths, or of a single document
    groups = ["abcd bcda", "abcd abcd", "abc xyz", "abcd axbc", "ab b", "abc ad", "a a", "a xyz"]
    if multileaves:
        groups += ["abcd bcda dcba", "abc bca cab", "ab b cab", "abc abc abc"]
    for group in groups:
        rankings = [list(ranking) for ranking in group.split()]
        records = interleaver.distribution(rankings, 3)
        here = Requirement(f"{interleaver!r}, rankings {group}")
        here(abs(sum(p for _, p in records) - 1) <= 1e-9, "probabilities do not sum to 1")
        here(min(p for _, p in records) > 0, "a list of the distribution has probability 0")
        for shown, _ in records:
            _check_list(interleaver, fresh, shown, rankings, here, prefix)
        # the distribution of lists and their credits is the same for every order of the rankers
        law = _law(records, interleaver, range(len(rankings)))
        for order in itertools.permutations(range(len(rankings))):
            swapped = interleaver.distribution([rankings[i] for i in order], 3)
            other = _law(swapped, interleaver, np.argsort(order))
            worst = max(abs(law.get(key, 0) - other.get(key, 0)) for key in {*law, *other})
            here(
                worst <= 1e-7,
                f"rankings in the order {order}: lists and credits, permuted back, are not the same "
                f"(a probability is off by {worst:.3g})",
            )
        _check_fairness(interleaver, records, here, fair, len(set(group.split())) == 1)
    _check_draws(interleaver, require, random_state)
    _check_many(interleaver, require, 3 if multileaves else 2)
    _check_refused_rankings(interleaver, require, multileaves)


def _check_list(
    interleaver: Any, fresh: Any, shown: Any, rankings: list[list[str]], require: Requirement, prefix: bool
) -> None:
    from structsvm.online.interleaving import Shown

    documents, n = shown.documents, len(rankings)
    universe = set(itertools.chain.from_iterable(rankings))
    require(isinstance(shown, Shown), f"expected a Shown record, got {shown!r:.80}")
    require(shown.method == interleaver.name, f"the record names the method {shown.method!r}")
    require(shown.n_rankers == n, f"the record has {shown.n_rankers} rankers")
    require(len(set(documents)) == len(documents), f"{documents}: a document is shown twice")
    require(set(documents) <= universe, f"{documents}: a document that is in no ranking")
    message = f"{documents}: expected {min(3, len(universe))} documents"
    require(len(documents) == min(3, len(universe)), message)
    # each document must be, in some ranking, the first document that is not shown yet
    if prefix:
        for k, document in enumerate(documents):
            heads = {next((d for d in r if d not in documents[:k]), None) for r in rankings}
            require(document in heads, f"{documents}: {document!r} is not the next document of any ranking")
    # For every vector of clicks, check the shapes, the symmetry, that no clicks give no credit, and that the logged
    # record gives the same credit.
    logged = Shown.from_json(shown.to_json())
    for clicks in itertools.product((0, 1), repeat=len(documents)):
        credit, outcome = (np.asarray(f(shown, clicks)) for f in (interleaver.credit, interleaver.outcome))
        message = f"credit: expected {n} finite numbers, got {credit}"
        require(credit.shape == (n,) and np.isfinite(credit).all(), message)
        message = f"outcome: expected ({n}, {n}) numbers from -1 to 1, got {outcome}"
        require(outcome.shape == (n, n) and (np.abs(outcome) <= 1).all(), message)
        require((outcome == -outcome.T).all(), "outcome: not antisymmetric")
        message = "a list without clicks favours a ranker"
        require(any(clicks) or (not outcome.any() and bool((credit == credit[0]).all())), message)
        require(
            (np.asarray(fresh.credit(logged, list(clicks))) == credit).all()
            and (np.asarray(fresh.outcome(logged, list(clicks))) == outcome).all(),
            "another object credits the logged record differently",
        )
        # two rankers: credit and outcome agree on which ranker is ahead
        if n == 2:
            ahead = 0.0 if np.isclose(credit[0], credit[1], rtol=1e-9, atol=1e-12) else credit[0] - credit[1]
            message = f"clicks {clicks} on {documents}: credit {credit} and outcome {outcome[0, 1]} disagree"
            require(np.sign(ahead) == np.sign(np.round(outcome[0, 1], 12)), message)


def _check_many(interleaver: Any, require: Requirement, n_rankers: int) -> None:
    from structsvm.online.interleaving.crediting import credit_lists, differences

    rng, letters = np.random.default_rng(0), "abcdefg"
    rankings = [rng.permutation(list(letters)).tolist() for _ in range(n_rankers)]
    records = [interleaver.show(rankings, length, seed) for length in (3, 1, 7, 5) for seed in range(3)]
    places = [np.flatnonzero(rng.random(len(one.documents)) < 0.5).tolist() for one in records]
    many = credit_lists(interleaver, records, places, list(map(str, range(len(records)))))
    own = many.outcome if interleaver.draws_outcome else differences(many.credit)
    pairs = np.triu_indices(n_rankers, 1)
    for k, (shown, clicked) in enumerate(zip(records, places, strict=True)):
        clicks = np.isin(np.arange(len(shown.documents)), clicked)
        same = (interleaver.credit(shown, clicks) == many.credit[k]).all()
        same &= (interleaver.outcome(shown, clicks)[pairs] == many.outcome[k]).all()
        require(bool(same), f"clicks {clicked} on {shown.documents}: other credit together with other lists")
        bound = interleaver.bound(len(shown.documents), n_rankers)
        require(
            bool(np.abs(own[k]).max() <= many.largest[k] + 1e-9) and many.largest[k] <= bound,
            f"expected a statistic of at most {many.largest[k]}, and that at most {bound}, got {own[k]}",
        )


def _law(records: Any, interleaver: Any, back: Any) -> dict[Any, float]:
    """Return the probability of each list with the credits for all its click vectors, with rankers in the order
    ``back``."""
    law: dict[Any, float] = defaultdict(float)
    for shown, p in records:
        clicks = itertools.product((0, 1), repeat=len(shown.documents))
        credits = [np.round(np.asarray(interleaver.credit(shown, c))[list(back)], 9) + 0.0 for c in clicks]
        law[shown.documents, tuple(map(tuple, credits))] += p
    return law


def _check_fairness(
    interleaver: Any, records: Any, require: Requirement, fair: str | None, identical: bool
) -> None:
    n, length = records[0][0].n_rankers, len(records[0][0].documents)

    def mean(value: Callable[..., Any], examined: Any) -> Any:
        """Return the expectation if rank k is clicked with probability ``examined[k]``, whatever its document."""
        total = 0.0
        for shown, p in records:
            for clicks in itertools.product((0, 1), repeat=length):
                chance = np.prod(np.where(clicks, examined, 1 - np.asarray(examined)))
                total = total + p * chance * np.asarray(value(shown, clicks))
        return total

    even, steep = [0.5] * length, [0.7, 0.3, 0.1][:length]
    if identical or fair == "outcome":
        for examined in (even, steep):
            outcome, credit = mean(interleaver.outcome, examined), mean(interleaver.credit, examined)
            require(
                (np.abs(outcome) <= 1e-9).all(),
                f"expected outcome 0 if clicks ignore the documents, got {outcome[np.triu_indices(n, 1)]}",
            )
            message = f"expected equal credit if clicks ignore the documents, got {credit}"
            require(float(np.ptp(credit)) <= 1e-9, message)
    # The weaker guarantees concern only the credit. Optimised methods may have slack where no exact solution exists.
    slack = max(shown.slack for shown, _ in records)
    by_rank: Any = {"credit": np.eye(length), "even credit": [even]}.get(fair or "", [])
    for examined in by_rank if not slack else []:
        credit = mean(interleaver.credit, examined)
        message = f"expected equal credit if clicks (chances {examined}) ignore the documents, got {credit}"
        require(float(np.ptp(credit)) <= 1e-8, message)


def _check_draws(interleaver: Any, require: Requirement, seed: int) -> None:
    # ids of several types; lists shorter than, and as long as, the rankings
    rankings, n = [[1, ("b", 2), "c", 4], [4, 1, "c", ("b", 2)]], 400
    for length in (2, 4):
        chances: dict[Any, float] = defaultdict(float)
        for shown, p in interleaver.distribution(rankings, length):
            chances[shown.documents] += p
        rng, counts = np.random.default_rng(seed), dict.fromkeys(chances, 0)
        for _ in range(n):
            documents = interleaver.show(rankings, length=length, rng=rng).documents
            require(documents in counts, f"show() returned {documents}, expected a list of distribution()")
            counts[documents] += 1
        require.frequencies(counts, chances, "show gave")
    # compare 32 draws, because few documents allow only few lists, and two single draws could be equal by chance
    one, other = ([interleaver.show(rankings, rng=seed + i) for i in range(32)] for _ in range(2))
    require(one == other, "the same seed gives a different list")
    require(len(one[0].documents) == 4, "length above the number of documents: expected all documents")


def _check_refused_rankings(interleaver: Any, require: Requirement, multileaves: bool) -> None:
    good = [["a", "b", "c"], ["b", "c", "a"]]
    cases: list[tuple[str, Any, int]] = [
        ("a document twice in a ranking", [["a", "b", "a"], ["b", "c"]], 3),
        ("an empty ranking", [["a", "b"], []], 3),
        ("one ranking", [["a", "b"]], 3),
        ("no ranking", [], 3),
        ("a string as a ranking", ["abc", "bca"], 3),
        ("a list as an id", [[["a"], "b"], ["b"]], 3),
        ("length 0", good, 0),
        ("length 2.5", good, 2.5),  # type: ignore[list-item]
    ]
    if not multileaves:
        cases.append(("three rankings", [*good, ["c", "a", "b"]], 3))
    for what, rankings, length in cases:
        require.refusal(what, interleaver.show, rankings, length, 0)
        require.refusal(what, interleaver.distribution, rankings, length)
    # a record is credited for one 0 or 1 per document, and only by its own method
    shown = interleaver.show(good, length=3, rng=0)
    foreign = replace(shown, method="another method")
    for action in (interleaver.credit, interleaver.outcome):
        wrong: list[Any] = [[1, 0], [1, 0, 0, 0], [0, 2, 0], [0, np.nan, 0], 1]
        for clicks in wrong:
            require.refusal(f"clicks {clicks}", action, shown, clicks)
        require.refusal("a record of another method", action, foreign, [0, 0, 1])
