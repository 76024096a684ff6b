"""``Requirement``: the assertions of checks, with messages that name the component and the difference."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from structsvm.common.checks import missing_parts


class Requirement:
    """Check statements about a component; raise an ``AssertionError`` that names the component if a statement is
    false."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, holds: object, message: str) -> None:
        if not holds:
            raise AssertionError(f"{self.name}: {message}")

    def members(self, protocol: type, thing: object) -> None:
        """Require that the component has the members of a protocol."""
        missing = missing_parts(protocol, thing)
        self(not missing, f"expected the protocol {protocol.__name__}, missing: {missing}")

    def frequencies(self, counts: Mapping[Any, int], chances: Mapping[Any, float], what: str) -> None:
        """Require that counts agree with probabilities, within five standard deviations."""
        # one additional occurrence is allowed, for outcomes so rare that the normal approximation does not hold
        n = sum(counts.values())
        for thing, p in chances.items():
            allowed = 5 * np.sqrt(n * p * (1 - p)) + 1 if p > 0 else 0
            self(
                abs(counts[thing] - n * p) <= allowed,
                f"{what} {thing} {counts[thing]} times of {n}, expected {n * p:.1f}",
            )

    def refusal(
        self,
        what: str,
        action: Callable[..., Any],
        *arguments: object,
        error: Any = ValueError,
        says: str = "",
    ) -> None:
        """Require that an action on bad input raises ``error``, with a message that matches ``says``."""
        try:
            action(*arguments)
        except error as raised:
            matches = re.search(says, str(raised), re.DOTALL)
            self(matches, f"{what}: expected an error that says {says!r}, got {raised}")
        except Exception as raised:
            raise AssertionError(
                f"{self.name}: {what}: expected a {error.__name__}, got {raised!r}"
            ) from raised
        else:
            self(False, f"{what}: expected a {error.__name__}, got none")
