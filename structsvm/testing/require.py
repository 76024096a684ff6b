"""How a check says what does not hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def require(holds: bool, name: str, message: str) -> None:
    """AssertionError of the thing checked, by its name, unless it holds."""
    if not holds:
        raise AssertionError(f"{name}: {message}")


def require_refusal(name: str, what: str, action: Callable[..., Any], *arguments: Any) -> None:
    """AssertionError unless the action on bad input raises a ValueError."""
    try:
        action(*arguments)
    except ValueError:
        return
    except Exception as error:
        raise AssertionError(f"{name}: {what}: expected a ValueError, got {error!r}") from error
    raise AssertionError(f"{name}: {what}: expected a ValueError, got none")
