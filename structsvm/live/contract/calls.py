"""Checks of calls, by the types of the API and by further rules, and the error for a refused call."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from structsvm.common.escaping import printable
from structsvm.live.contract.bodies import Assign, Show
from structsvm.live.contract.config import is_name, is_text
from structsvm.live.contract.conversion import problem_of


class Refused(Exception):
    """A call that is refused: a word for programs, a sentence for people, and seconds after which to try again."""

    def __init__(self, code: str, message: str, retry_after: int | None = None) -> None:
        said = " ".join(printable(message).split())[:500]  # the message may contain text from the caller
        super().__init__(said)
        self.code, self.message, self.retry_after = code, said, retry_after


def check_texts(call: Assign | Show) -> None:
    """Raise Refused for ids or a query that cannot be stored as text."""
    for name, is_usable in (("request_id", is_name), ("unit", is_name), ("query", is_text)):
        text = getattr(call, name, None)
        if text is not None and not is_usable(text):
            raise Refused(
                f"bad_{name}", f"{name}: expected text that can be written as UTF-8, got {text!r:.80}"
            )


def wrong_type(error: msgspec.ValidationError) -> Refused:
    """Return the refusal of a call, with the invalid field."""
    path, said = problem_of(error)
    first = re.split(r"[.\[]", path)[0] or "json"
    return Refused(
        "unknown_field" if "unknown field" in said else f"bad_{first}", f"{path or 'body'}: {said}"
    )


def check_show(call: Show, config: Mapping[str, Any]) -> None:
    """Fill in the length of the page; raise Refused if it is too long, or if rankings do not fit the experiment."""
    known, most = config["rankers"], config["length"]
    if not call.rankings:
        raise Refused("bad_rankings", 'rankings: expected {"RANKER": [ids], ...}')
    for name, ranking in call.rankings.items():
        if name not in known:
            raise Refused(
                "unknown_ranker", f"rankings: expected keys among {', '.join(known)}, got {name!r:.80}"
            )
        if len(set(ranking)) < len(ranking):
            raise Refused("duplicate_document", f"rankings.{name}: expected distinct ids")
        if not is_name("".join(ranking)):
            raise Refused("bad_document", f"rankings.{name}: expected ids that can be written as UTF-8")
    call.length = call.length or most
    if call.length > most:
        raise Refused("bad_length", f"length: expected a number from 1 to {most}, got {call.length}")
