"""Simulate multileavings of several rankers, and measure how much they distort pairwise preferences."""

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.common.checks import BadInput, check_choice
from structsvm.online.interleaving.compiled.comparisons import Credit, tables_for
from structsvm.online.interleaving.compiled.kernels import multileave
from structsvm.online.interleaving.compiled.ranked_queries import RankedQueries
from structsvm.protocols import ClickModel


def multileave_outcomes(
    ranked: RankedQueries,
    rankers: ArrayLike,
    clicks: ClickModel,
    n_samples: int = 1,
    *,
    method: Literal["sosm", "team_draft"] = "sosm",
    length: int = 10,
    credit: Credit = "sign",
    random_state: int = 0,
) -> NDArray[np.float64]:
    """Return the wins of ``rankers[i]`` over ``rankers[j]`` minus its losses in ``n_samples`` multileavings.

    Each multileaving uses a random query and new clicks. The ranker with more credit wins; with ``credit="difference"``
    and SOSM it wins with a probability equal to the difference divided by the largest possible difference.
    ``(1 + outcomes / n_samples) / 2`` estimates the preference matrix under multileaving.
    """
    chosen = np.asarray(rankers)
    if chosen.ndim != 1 or chosen.shape[0] < 2 or chosen.dtype.kind not in "iu":
        raise BadInput("rankers", f"expected at least 2 rankers as integers, got {chosen!r:.80}")
    if chosen.min() < 0 or chosen.max() >= ranked.n_rankers or np.unique(chosen).shape[0] < chosen.shape[0]:
        most = ranked.n_rankers - 1
        raise BadInput("rankers", f"expected distinct integers from 0 to {most}, got {chosen!r:.80}")
    check_choice("method", method, ("sosm", "team_draft"))
    check_choice("credit", credit, get_args(Credit))
    tables = tables_for(ranked, clicks, length, n_samples)
    outcome = np.zeros((chosen.shape[0], chosen.shape[0]), dtype=np.int64)
    # one random stream per 256 samples
    counts = np.diff(np.append(np.arange(0, n_samples, 256), n_samples))
    seeds: Any = np.random.SeedSequence(random_state).generate_state(counts.size, np.uint64)
    longest = int(np.diff(ranked.offsets).max())
    for count, seed in zip(counts.tolist(), seeds, strict=True):
        by = method == "sosm", credit == "difference"
        multileave(ranked, tables, longest, chosen.astype(np.int64), count, seed, *by, outcome)
    return outcome.astype(np.float64)


def distortion(multileaved: ArrayLike, pairwise: ArrayLike, winner: int) -> float:
    """Return the share of the other rankers that beat the Condorcet winner in multileaving but not in pairs.

    Entry ``[i, j]`` of each matrix estimates the probability that ranker i beats j: in ``multileaved`` when all rankers
    are multileaved, in ``pairwise`` when only the two are interleaved (Brost, Seldin, Cox & Lioma, "Multi-dueling
    bandits", CIKM 2016, 4.2.6 and Table 3).
    """
    together, alone = np.asarray(multileaved, dtype=np.float64), np.asarray(pairwise, dtype=np.float64)
    for name, matrix in (("multileaved", together), ("pairwise", alone)):
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < 2:
            raise BadInput(name, f"expected a square matrix of at least 2 rankers, got shape {matrix.shape}")
        if not ((matrix >= 0) & (matrix <= 1)).all():
            raise BadInput(name, "expected probabilities between 0 and 1")
    if together.shape != alone.shape:
        raise BadInput("pairwise", f"expected the shape of multileaved, {together.shape}, got {alone.shape}")
    if not 0 <= winner < together.shape[0]:
        raise BadInput("winner", f"expected a ranker from 0 to {together.shape[0] - 1}", value=winner)
    others = np.arange(together.shape[0]) != winner
    return float(((together[:, winner] > 0.5) & (alone[:, winner] <= 0.5))[others].mean())
