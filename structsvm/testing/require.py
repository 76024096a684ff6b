"""How a check says what does not hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from structsvm.common.checks import missing_parts


class Requirement:
    """Raises an ``AssertionError`` with the name of the thing checked where something does not hold of it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, holds: Any, message: str) -> None:
        if not holds:
            raise AssertionError(f"{self.name}: {message}")

    def members(self, protocol: type, thing: object) -> None:
        """Require the members of a protocol."""
        missing = missing_parts(protocol, thing)
        self(not missing, f"is no {protocol.__name__}: without {missing}")

    def frequencies(self, counts: Mapping[Any, int], chances: Mapping[Any, float], what: str) -> None:
        """Require that things were drawn as often as their chances say, within five standard deviations."""
        n = sum(counts.values())
        for thing, p in chances.items():
            allowed = 5 * np.sqrt(n * p * (1 - p)) + 1 if p > 0 else 0
            self(
                abs(counts[thing] - n * p) <= allowed,
                f"{what} {thing} {counts[thing]} times of {n}, expected {n * p:.1f}",
            )

    def refusal(
        self, what: str, action: Callable[..., Any], *arguments: Any, error: Any = ValueError, says: str = ""
    ) -> None:
        """Require that the action on bad input raises such an error, with a text of the pattern ``says``."""
        try:
            action(*arguments)
        except error as found:
            self(
                re.search(says, str(found), re.DOTALL),
                f"{what}: expected an error that says {says!r}, got {found}",
            )
        except Exception as found:
            raise AssertionError(
                f"{self.name}: {what}: expected a {error.__name__}, got {found!r}"
            ) from found
        else:
            self(False, f"{what}: expected a {error.__name__}, got none")
