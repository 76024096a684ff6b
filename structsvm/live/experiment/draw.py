"""Draw lists from keyed hashes: a repeated request gets the same list on any worker.

The list is drawn from a hash of the experiment's salt and the request id, so no stored state is read to draw it again.
"""

from collections.abc import Hashable, Sequence

from msgspec.structs import replace

from structsvm.live.contract.tokens import keyed
from structsvm.online.impressions.shown import Shown
from structsvm.online.interleaving.by_name import interleaver


class _Choices:
    """Random choices drawn from a keyed hash; equal seeds give equal choices."""

    def __init__(self, seed: bytes) -> None:
        self._seed, self._block, self._numbers = seed, 0, b""

    def __call__(self, probabilities: Sequence[float]) -> int:
        if len(self._numbers) < 4:
            self._numbers = keyed(self._seed, self._block.to_bytes(4), 64)
            self._block += 1
        drawn = int.from_bytes(self._numbers[:4]) / 2**32
        self._numbers = self._numbers[4:]
        for option, p in enumerate(probabilities):
            drawn -= p
            if drawn < 0:
                return option
        return len(probabilities) - 1


def draw(method: str, rankings: Sequence[Sequence[str]], length: int, salt: bytes, request_id: str) -> Shown:
    """Draw the list of a request; the same request and rankings give the same list.

    A longer list of the same request begins with the shorter one (team draft). The rankings must have been checked:
    none is empty or holds a document twice.
    """
    seed = keyed(salt, b"draw|" + request_id.encode(), 32)
    if interleaver(method).is_by_team:
        return interleaver(method).merge(reachable(rankings, length), length, _Choices(seed))
    return interleaver(method).show(rankings, length, int.from_bytes(seed[:8]))


def reachable(rankings: Sequence[Sequence[str]], length: int) -> list[tuple[Hashable, ...]]:
    """Return the part of each ranking that a draft of ``length`` can use.

    A ranker skips documents that others took and takes at most ``length``. If rankings may run out, teams also depend
    on later documents, and the whole rankings are returned.
    """
    if min(map(len, rankings)) < length:
        return [tuple(ranking) for ranking in rankings]
    return [tuple(ranking[: 2 * length]) for ranking in rankings]


def page_of(shown: Shown, offset: int) -> Shown:
    """Return the record of a later page of a draft: the list from index ``offset`` on.

    The rest of a round that began on the previous page is not credited, as its order is already drawn.
    """
    end = offset + (-offset % shown.n_rankers)
    rows = tuple((None,) * len(row[offset:end]) + row[end:] for row in shown.evidence)
    return replace(shown, documents=shown.documents[offset:], evidence=rows, offset=offset)
