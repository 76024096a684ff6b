"""The checks of what callers send: ids, rankings and pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from structsvm.checks import BadInput
from structsvm.live.assign import Experiment
from structsvm.live.bodies import MAX_ID, MAX_IDS
from structsvm.live.config import check_id, is_text
from structsvm.live.refused import Refused


def check_call(request_id: Any, unit: Any, context: Any) -> None:
    """Raise Refused unless the ids and the context of a call are usable."""
    try:
        check_id("request_id", request_id)
        if unit is not None:
            check_id("unit", unit)
    except BadInput as error:
        raise Refused(422, f"bad_{error.argument}", str(error)) from None
    if context is not None and not isinstance(context, Mapping):
        raise Refused(422, "bad_context", f"context: expected an object, got {context!r:.80}")


def check_rankings(rankings: Any, known: Sequence[str]) -> dict[str, list[str]]:
    """Return the rankings of a call; raise Refused unless each is a list of different ids of a known ranker."""
    if not isinstance(rankings, Mapping) or not rankings:
        raise Refused(422, "bad_rankings", 'rankings: expected {"RANKER": [ids], ...}')
    for name, ranking in rankings.items():
        if name not in known:
            raise Refused(
                422, "unknown_ranker", f"rankings: expected names of {', '.join(known)}, got {name!r:.80}"
            )
        if not isinstance(ranking, list) or len(ranking) > MAX_IDS:
            raise Refused(422, "bad_ranking", f"rankings.{name}: expected a list of at most {MAX_IDS:,} ids")
        if not ranking:
            continue
        ids = set(map(type, ranking)) == {str}
        if not ids or not 0 < min(map(len, ranking)) <= max(map(len, ranking)) <= MAX_ID:
            raise Refused(422, "bad_document", f"rankings.{name}: expected ids of 1 to {MAX_ID} characters")
        if len(set(ranking)) < len(ranking):
            raise Refused(422, "duplicate_document", f"rankings.{name}: expected different ids")
        whole = "".join(ranking)
        if "\0" in whole or not is_text(whole):
            raise Refused(422, "bad_document", f"rankings.{name}: expected ids that can be written as UTF-8")
    return dict(rankings)


def check_page(experiment: Experiment, length: Any, offset: Any) -> int:
    """Return the number of documents to show; raise Refused unless both numbers are usable."""
    most = experiment.config["length"]
    if length is None:
        length = most
    if type(length) is not int or not 1 <= length <= most:
        raise Refused(422, "bad_length", f"length: expected a number from 1 to {most}, got {length!r:.80}")
    if type(offset) is not int or not 0 <= offset <= MAX_IDS:
        raise Refused(422, "bad_offset", f"offset: expected a number from 0 to {MAX_IDS}, got {offset!r:.80}")
    return int(length)
