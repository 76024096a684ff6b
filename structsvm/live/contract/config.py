"""The configuration of an experiment: checks, defaults, and which changes start a new revision."""

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

import msgspec

from structsvm.common.checks import BadInput, check_choice
from structsvm.live.contract.bodies import MOST, Config
from structsvm.live.contract.conversion import converted
from structsvm.protocols import Bandit

if TYPE_CHECKING:
    from structsvm.online.bandits import BestArm

_LONGEST = 65_536
"""Maximum number of characters of a configuration."""

_FREE = {"share", "guardrails", "stop", "log_query", "log_rankings", "epoch"}
"""Keys that may change while statistics continue. ``engines`` is not one, since its settings define the rankers."""

_BANDIT = ("policy", "policy_options", "horizon")


def check_key(key: object) -> str:
    """Return the key of an experiment: letters, digits, dots, dashes and underscores, 64 at most."""
    if not isinstance(key, str) or not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}", key):
        raise BadInput(
            "key",
            f"expected up to 64 letters, digits, '.', '_' or '-', the first neither '.' nor '-', got {key!r:.80}",
        )
    return key


def check_config(config: object) -> dict[str, Any]:
    """Return the complete configuration of an experiment, with all defaults.

    ``engines.engine.with_hashes`` adds the hashes of its engines.
    """
    made = converted(config, Config)
    rankers = made.rankers
    for field, names in (("rankers", rankers), ("actions", made.actions)):
        for name in names:
            if not name.isprintable():
                raise BadInput(field, f"expected printable names, got {name!r:.80}")
    if len(set(rankers)) < len(rankers):
        raise BadInput("rankers", "expected distinct names")
    if made.kind == "interleaving" and len(rankers) > 10:
        raise BadInput(
            "rankers",
            f"expected at most 10 rankers to interleave, got {len(rankers)}",
            'use "kind": "bandit"',
        )
    made.production = made.production or rankers[0]
    check_choice("production", made.production, rankers)
    if 1 not in made.actions.values():
        raise BadInput("actions", f"expected at least one action with value 1, got {made.actions!r:.80}")
    policy = {}
    if made.kind == "bandit":
        policy = _check_policy(made)
    elif any(getattr(made, name) is not None for name in _BANDIT):
        raise BadInput("policy", "applies only to an experiment with a bandit", 'set "kind": "bandit"')
    if made.engines is not None and set(made.engines) != set(rankers):
        raise BadInput(
            "engines", f"expected an engine for each of {', '.join(rankers)}, got {list(made.engines)!r:.80}"
        )
    checked = {
        name: value for name, value in msgspec.to_builtins(made).items() if name not in _BANDIT
    } | policy
    try:
        whole = json.dumps(checked, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise BadInput("experiment", "expected finite numbers") from None
    if len(whole) > _LONGEST or not is_text(whole):
        raise BadInput("experiment", f"expected up to {_LONGEST:,} characters that can be written as UTF-8")
    return checked


def same_meaning(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return whether the statistics of one configuration continue under the other."""
    meant = [{name: value for name, value in one.items() if name not in _FREE} for one in (old, new)]
    return meant[0] == meant[1]


def continued(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration that continues another; if the split of units changes, it starts a new epoch."""
    epoch = old.get("epoch", 0)
    if (old["share"], old["guardrails"]["control"]) != (new["share"], new["guardrails"]["control"]):
        epoch += 1
    return {**new, "epoch": epoch} if epoch else dict(new)


def _check_policy(made: Config) -> dict[str, Any]:
    from structsvm.online.bandits import NAMES, make

    policy, options = made.policy or "rucb", made.policy_options or {}
    check_choice("policy", policy, NAMES)
    for name, value in options.items():
        if isinstance(value, (int, float)) and not -MOST <= value <= MOST:
            raise BadInput(f"policy_options.{name}", f"expected a number up to {MOST:.0e}")
    try:
        bandit = make(policy, len(made.rankers), made.horizon, **options)
        bandit.to_json()
    except BadInput:
        raise
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise BadInput("policy_options", f"{policy} cannot be created with these options ({error})") from None
    if made.stop.on_winner != "keep" and not decides(bandit):
        raise BadInput(
            "stop.on_winner",
            f"expected keep, as {policy} names no winner",
            'use "policy": "best" (with top=1)',
            value=made.stop.on_winner,
        )
    return {"policy": policy, "policy_options": options, "horizon": made.horizon}


def fresh_bandit(config: Mapping[str, Any], state: str = "") -> Bandit:
    """Return the policy of an experiment, in a stored state or its initial state."""
    from structsvm.online import bandits

    if state:
        return bandits.from_json(json.loads(state)["policy"])
    return bandits.make(
        config["policy"], len(config["rankers"]), config["horizon"], **config["policy_options"]
    )


def decides(bandit: object) -> TypeGuard["BestArm"]:
    """Return whether a bandit names a winner with an error rate."""
    from structsvm.online.bandits import BestArm

    return isinstance(bandit, BestArm) and bandit.top == 1


def is_text(value: str) -> bool:
    """Return whether a string can be written as UTF-8, which halves of surrogate pairs cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_name(value: str) -> bool:
    """Return whether databases can store a string as an id, which excludes NUL."""
    return "\0" not in value and is_text(value)
