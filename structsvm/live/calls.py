"""The checks of what callers send: the types of the API, and what no type says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from structsvm.live.assign import Experiment
from structsvm.live.config import is_name, is_text, problem_of
from structsvm.live.refused import Refused

T = TypeVar("T", bound=msgspec.Struct)


def checked(kind: type[T], fields: Mapping[str, Any]) -> T:
    """Return a call as its type; raise Refused unless each field is usable."""
    try:
        call = msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise wrong_type(error) from None
    for name, is_usable in (("request_id", is_name), ("unit", is_name), ("query", is_text)):
        text = getattr(call, name, None)
        if text is not None and not is_usable(text):
            problem = f"{name}: expected text that can be written as UTF-8, got {text!r:.80}"
            raise Refused(422, f"bad_{name}", problem)
    return call


def wrong_type(error: msgspec.ValidationError) -> Refused:
    """Return the refusal of a call, with the field that is wrong."""
    place, said = problem_of(error)
    first = re.split(r"[.\[]", place)[0] or "json"
    code = "unknown_field" if "unknown field" in said else f"bad_{first}"
    return Refused(422, code, f"{place or 'body'}: {said}")


def check_rankings(rankings: Mapping[str, Sequence[str]], known: Sequence[str]) -> None:
    """Raise Refused unless there are rankings, each of different ids, and of a known ranker."""
    if not rankings:
        raise Refused(422, "bad_rankings", 'rankings: expected {"RANKER": [ids], ...}')
    for name, ranking in rankings.items():
        if name not in known:
            raise Refused(
                422, "unknown_ranker", f"rankings: expected names of {', '.join(known)}, got {name!r:.80}"
            )
        if len(set(ranking)) < len(ranking):
            raise Refused(422, "duplicate_document", f"rankings.{name}: expected different ids")
        if not is_name("".join(ranking)):
            raise Refused(422, "bad_document", f"rankings.{name}: expected ids that can be written as UTF-8")


def page_length(experiment: Experiment, length: int | None) -> int:
    """Return the number of documents to show; raise Refused for more than the experiment's lists have."""
    most: int = experiment.config["length"]
    if length is not None and length > most:
        raise Refused(422, "bad_length", f"length: expected a number from 1 to {most}, got {length}")
    return length or most
