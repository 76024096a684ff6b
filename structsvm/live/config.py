"""The configuration of an experiment: what may be said, its defaults, and what makes another experiment of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from structsvm.checks import BadInput, check_choice, check_flag, check_fraction, check_number, check_whole
from structsvm.live.draw import METHODS

__all__ = [
    "GUARDRAILS",
    "MAX_ID",
    "MAX_IDS",
    "check_config",
    "check_id",
    "check_key",
    "is_text",
    "same_meaning",
]

MAX_IDS = 1000
"""Most documents of one ranking."""

_LONGEST = 65_536
"""Most characters of a configuration."""

MAX_ID = 256
"""Most characters of an id."""

GUARDRAILS: dict[str, Any] = {
    "control": True,
    "clickless_margin": 0.05,
    "slow_ms": 1000,
    "slow_margin": 0.05,
    "late_limit": 0.02,
    "not_compared_limit": 0.05,
    "alpha": 0.001,
    "on_alarm": "alarm",
}
"""Defaults: production beside the share for comparison; by how much the share of lists without a click, and of answers
slower than ``slow_ms``, may be worse than production's; the largest share of late clicks and of requests that were not
compared; the chance of a false alarm of each guardrail over all looks; and what an alarm does ("kill" ends it)."""

_STOP = {"max_impressions": None, "on_winner": "keep"}
_KEYS = {
    "kind", "rankers", "production", "method", "length", "share", "window_s", "unit", "alpha", "actions",
    "log_query", "log_rankings", "guardrails", "engines", "stop", "policy", "policy_options", "horizon",
}  # fmt: skip
_FREE = {"share", "guardrails", "stop", "log_query", "log_rankings"}
"""Keys that may change without fresh statistics. Engines may not: what they rank by is the ranker."""


def check_key(key: Any) -> str:
    """Return the key of an experiment: letters, digits, dots, dashes and underscores, 64 at most."""
    plain = isinstance(key, str) and 0 < len(key) <= 64 and key.isascii()
    if not plain or not all(c.isalnum() or c in "._-" for c in key) or key[0] in ".-":
        raise BadInput(
            "key",
            f"expected up to 64 letters, digits, '.', '_' or '-', a letter or digit first, got {key!r:.80}",
        )
    return str(key)


def check_id(name: str, value: Any) -> str:
    """Return an id: text of 1 to 256 characters without halves of surrogate pairs or NUL."""
    if type(value) is not str or not 0 < len(value) <= MAX_ID:
        raise BadInput(name, f"expected text of 1 to {MAX_ID} characters, got {value!r:.80}")
    if "\0" in value or not is_text(value):
        raise BadInput(name, f"expected text that can be written as UTF-8, got {value!r:.80}")
    return value


def check_config(config: Any, engines: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the whole configuration of an experiment, defaults filled in.

    Parameters
    ----------
    config : mapping
    engines : mapping, optional
        The table ``engines`` of the configuration file of the service.

    Returns
    -------
    dict
        With engines also ``engine_hashes``, which tell when a ranker changes in the configuration file.

    Raises
    ------
    BadInput
        With the key that is wrong.

    Examples
    --------
    >>> check_config({"rankers": ["prod", "new"], "production": "prod"})["window_s"]
    1800
    """
    if not isinstance(config, Mapping):
        raise BadInput("experiment", f"expected an object, got {config!r:.80}")
    unknown = sorted(str(key) for key in set(config) - _KEYS)
    if unknown:
        raise BadInput(unknown[0][:80], f"expected one of {', '.join(sorted(_KEYS))}")
    kind = config.get("kind", "interleaving")
    check_choice("kind", kind, ("interleaving", "bandit"))
    rankers = config.get("rankers")
    if not isinstance(rankers, list) or not 2 <= len(rankers) <= 100:
        raise BadInput("rankers", f"expected a list of 2 to 100 names, got {rankers!r:.80}")
    for name in rankers:
        if not check_id("rankers", name).isprintable():
            raise BadInput("rankers", f"expected printable names, got {name!r:.80}")
    if len(set(rankers)) < len(rankers):
        raise BadInput("rankers", f"expected different names, got {rankers!r:.80}")
    if kind == "interleaving" and len(rankers) > 10:
        raise BadInput(
            "rankers", f"expected at most 10 to interleave, got {len(rankers)}", 'take "kind": "bandit"'
        )
    production = config.get("production", rankers[0])
    check_choice("production", production, rankers)
    checked: dict[str, Any] = {"kind": kind, "rankers": rankers, "production": production}
    checked["method"] = config.get("method", "team_draft")
    check_choice("method", checked["method"], METHODS)
    checked["length"] = check_whole("length", config.get("length", 10), 1, MAX_IDS)
    share = config.get("share", 1.0)
    check_number("share", share, 0.0, 1.0)
    checked["share"] = share
    window = config.get("window_s", 1800)
    check_number("window_s", window, 0.1, 7 * 86400)
    checked["window_s"] = window
    unit = config.get("unit", "session")
    check_choice("unit", unit, ("session", "user", "request"))
    checked["unit"] = unit
    alpha = config.get("alpha", 0.05)
    check_fraction("alpha", alpha)
    checked["alpha"] = alpha
    actions = config.get("actions", {"click": 1})
    if not isinstance(actions, dict) or not 1 <= len(actions) <= 20 or 1 not in actions.values():
        raise BadInput("actions", f"expected actions of which one or more count 1, got {actions!r:.80}")
    for action, counts in actions.items():
        if not check_id("actions", action).isprintable() or type(counts) is not int or counts not in (0, 1):
            raise BadInput(
                "actions", f"expected names with 1 (counts) or 0 (is kept only), got {actions!r:.80}"
            )
    checked["actions"] = actions
    for key in ("log_query", "log_rankings"):
        checked[key] = config.get(key, False)
        check_flag(key, checked[key])
    checked["guardrails"] = _check_guardrails(config.get("guardrails"))
    checked["stop"] = _check_stop(config.get("stop"), kind)
    checked["engines"] = _check_engines(config.get("engines"), rankers, engines or {})
    if checked["engines"] is not None:
        from structsvm.live.engines.engine import engine_hashes

        checked["engine_hashes"] = engine_hashes(checked["engines"], engines or {})
    if kind == "bandit":
        checked.update(_check_policy(config, len(rankers)))
    elif set(config) & {"policy", "policy_options", "horizon"}:
        raise BadInput("policy", "expected none for an experiment that is no bandit", 'say "kind": "bandit"')
    whole = json.dumps(checked, ensure_ascii=False)
    if len(whole) > _LONGEST or not is_text(whole):
        raise BadInput("experiment", f"expected up to {_LONGEST:,} characters that can be written as UTF-8")
    return checked


def same_meaning(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return whether statistics go on from one configuration to the other."""
    return {k: v for k, v in old.items() if k not in _FREE} == {
        k: v for k, v in new.items() if k not in _FREE
    }


def _check_guardrails(given: Any) -> dict[str, Any]:
    given = {} if given is None else given
    if not isinstance(given, dict) or not set(given) <= set(GUARDRAILS):
        raise BadInput("guardrails", f"expected some of {', '.join(GUARDRAILS)}, got {given!r:.80}")
    checked = {**GUARDRAILS, **given}
    check_flag("guardrails.control", checked["control"])
    for key in ("clickless_margin", "slow_margin", "late_limit", "not_compared_limit"):
        check_number(f"guardrails.{key}", checked[key], 0.0, 1.0)
    check_number("guardrails.slow_ms", checked["slow_ms"], 0.0, 1e7)
    check_fraction("guardrails.alpha", checked["alpha"])
    check_choice("guardrails.on_alarm", checked["on_alarm"], ("alarm", "kill"))
    return checked


def _check_stop(given: Any, kind: str) -> dict[str, Any]:
    given = {} if given is None else given
    if not isinstance(given, dict) or not set(given) <= set(_STOP):
        raise BadInput("stop", f"expected some of {', '.join(_STOP)}, got {given!r:.80}")
    checked = {**_STOP, **given}
    if checked["max_impressions"] is not None:
        check_whole("stop.max_impressions", checked["max_impressions"])
    choices = ("keep",) if kind == "bandit" else ("keep", "serve_winner", "serve_production")
    check_choice("stop.on_winner", checked["on_winner"], choices)
    return checked


def _check_engines(given: Any, rankers: list[str], known: Mapping[str, Any]) -> dict[str, Any] | None:
    if given is None:
        return None
    if not isinstance(given, dict) or set(given) != set(rankers):
        raise BadInput("engines", f"expected an engine for each of {', '.join(rankers)}, got {given!r:.80}")
    for ranker, entry in given.items():
        if not isinstance(entry, dict):
            raise BadInput("engines", f'expected {{"engine": NAME, ...}}, got {entry!r:.80}', at=f".{ranker}")
        name = entry.get("engine")
        if not isinstance(name, str) or name not in known:
            raise BadInput(
                "engines",
                f"expected an engine of the configuration file ({', '.join(known) or 'it has none'}), got {name!r:.80}",
                at=f".{ranker}",
            )
    return given


def _check_policy(config: Mapping[str, Any], n_arms: int) -> dict[str, Any]:
    from structsvm.online.bandits import NAMES, make

    policy, options = config.get("policy", "rucb"), config.get("policy_options", {})
    check_choice("policy", policy, NAMES)
    if not isinstance(options, dict):
        raise BadInput("policy_options", f"expected an object, got {options!r:.80}")
    horizon = config.get("horizon")
    if horizon is not None:
        check_whole("horizon", horizon)
    try:
        bandit = make(policy, n_arms, horizon, **options)
        bandit.to_json()
    except BadInput:
        raise
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise BadInput("policy_options", f"{policy} cannot be made with them ({error})") from None
    return {"policy": policy, "policy_options": options, "horizon": horizon}


def is_text(value: str) -> bool:
    """Return whether a string can be written as UTF-8, which halves of surrogate pairs cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
