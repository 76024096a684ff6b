"""What dialects share: the request as read, answers that cannot be used, and values behind dotted paths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from structsvm.checks import BadInput

MAX_PAGE = 10_000
"""Largest number of documents before and on a page; OpenSearch and Elasticsearch refuse more by default."""


NO_PARAMETERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Query:
    """What a client asked for, read from the body of its request."""

    first: int  # documents before the page
    size: int
    text: str | None = None  # what the user typed
    obstacle: str | None = None
    """Why the list must be production's: "sort", "page" (a cursor), "group" or "count" (no documents wanted)."""


class UnusableAnswer(Exception):
    """An engine's answer that holds no ranking; ``reason`` is one word, for counters and headers."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


def at_path(value: Any, path: str) -> Any:
    """Return what stands at a dotted path of nested objects, None where there is nothing."""
    for key in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def merged_mappings(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested objects as one; where both have a value, that of ``second`` stands."""
    result = dict(first)
    for key, value in second.items():
        old = result.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        result[key] = merged_mappings(old, value) if both else value  # type: ignore[arg-type]
    return result


def count_of(value: Any) -> int | None:
    """Return a number of documents as an answer says it; None for anything else."""
    return value if type(value) is int and value >= 0 else None


def page_number(name: str, value: Any, default: int) -> int:
    """Return a count of documents from a request: 0 to 10,000, for Solr also as text; else raise BadInput."""
    if value is None:
        return default
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 6:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_PAGE:
        raise BadInput(name, f"expected a whole number from 0 to {MAX_PAGE}", value=value)
    return value


def text_in(body: Mapping[str, Any], *paths: str) -> str | None:
    """Return the first string at one of the paths."""
    for path in paths:
        value = at_path(body, path)
        if isinstance(value, str) and value:
            return value
    return None
