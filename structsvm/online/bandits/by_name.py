"""Create bandits by the short names of their policies, and restore saved bandits from JSON.

This module needs no change for a new policy: its short name is given in ``__init__.py``, and the module of its compiled
form by the class attribute ``compiled``.
"""

import inspect
import json
from importlib import import_module
from typing import Any

from structsvm.common.checks import BadInput
from structsvm.common.lazy import homes, labels
from structsvm.protocols import Bandit

_ROOM = "structsvm.online.bandits"

NAMES = labels(_ROOM)
"""Class names by the short names that :func:`make`, ``simulate`` and the command line accept."""


def compiled_names() -> list[str]:
    """Return the short names of the bandits that have a compiled form."""
    return [name for name in NAMES if hasattr(make(name, 2, 2), "compiled")]


def make(name: str, n_arms: int, horizon: int | None = None, **options: object) -> Bandit:
    """Return a new bandit, given the short name of its policy.

    Parameters
    ----------
    name : str
        A key of :data:`NAMES`.
    n_arms : int
        Number of arms.
    horizon : int, optional
        Number of comparisons; passed only to bandits that have a horizon.
    **options
        Further parameters of the class, such as ``alpha``.

    Examples
    --------
    >>> make("rucb", 5, alpha=0.6).alpha
    0.6
    """
    if name not in NAMES:
        raise BadInput("bandit", f"expected one of {', '.join(NAMES)}, got {name!r}")
    builder = getattr(import_module(_ROOM), NAMES[name])
    known = inspect.signature(builder).parameters
    allowed = [key for key in known if key not in ("n_arms", "horizon")]
    for key in options:
        if key not in allowed:
            raise BadInput(name, f"expected options among {allowed}, got {key!r}")
    if "horizon" in known:
        options["horizon"] = horizon
    bandit: Bandit = builder(n_arms, **options)
    return bandit


def from_json(text: str) -> Bandit:
    """Restore a bandit of this package from the text that its ``to_json`` returned.

    Examples
    --------
    >>> from_json(make("mdb", 3).to_json()).n_arms
    3
    """
    name, _, _ = read_state(text, "bandit")
    # accept only classes of this package, since a name in a file must not import anything else
    is_bandit = isinstance(name, str) and homes(_ROOM).get(name, "").startswith(f"{_ROOM}.")
    if not is_bandit or not hasattr(getattr(import_module(_ROOM), name), "from_json"):
        raise BadInput("bandit", f"expected a class of structsvm.online.bandits, got {name!r:.60}")
    bandit: Bandit = getattr(import_module(_ROOM), name).from_json(text)
    return bandit


def read_state(text: str, what: str) -> tuple[Any, Any, Any]:
    """Return the name, state and digest in the JSON of a bandit; raise ValueError for any other text."""
    try:
        record = json.loads(text)
        return record["bandit"], record["state"], record.get("digest")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(
            "text", f"expected the JSON text of a {what} from to_json, got {text[:60]!r}"
        ) from error
