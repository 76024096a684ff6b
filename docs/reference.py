"""The API reference: the exports of the package's folders by section, and the tables of names that users can choose.

Sphinx writes it into ``docs/api.rst`` when the pages are built. To document a new member, export it from the
``__init__.py`` of its folder.
"""

from importlib import import_module
from inspect import isclass, isroutine, signature
from pathlib import Path
from typing import Any, get_type_hints

from structsvm.common.lazy import homes, labelled

# section -> names: a folder or module, whose ``__all__`` is listed (after a colon: only members defined in it), or a
# member
SECTIONS: dict[str, tuple[str, ...]] = {
    "Rankers from labels": (
        "structsvm:structsvm.estimators",
        "structsvm:structsvm.clicks",
        "structsvm.estimators",
        "structsvm.load",
    ),
    "Data": ("structsvm:structsvm", "structsvm.CandidateSet", "structsvm.readers"),
    "Features": ("structsvm:structsvm.features", "structsvm.features"),
    "Measures": ("structsvm.metrics",),
    "Figures and pages": ("structsvm.plots",),
    "Choosing documents without learning": ("structsvm.estimators.baselines",),
    "Export": ("structsvm.export",),
    "Losses": ("structsvm.oracles",),
    "Trainers and the small QP": (
        "structsvm.trainers",
        "structsvm.qp",
    ),
    "From one machine to many": ("structsvm.dask",),
    "Seams, and checks of your own parts": ("structsvm.protocols", "structsvm.testing"),
    "From click logs to rankers": ("structsvm.clicks",),
    "Learning from clicks": ("structsvm.online",),
    "Interleaving": ("structsvm.online.interleaving",),
    "Simulated users": ("structsvm.online.users",),
    "Dueling bandits": ("structsvm.online.bandits",),
    "The best of K from votes": ("structsvm.online.arena",),
    "Click logs and statistics": ("structsvm.online.clicklog", "structsvm.online.statistics"),
    "Live experiments": (
        "structsvm.live",
        "structsvm.live.engines",
    ),
}


_NOT_LISTED = {
    "__version__",
    "Float",
    "Int",
}  # the version is in the title; readers do not look up array types


def sections() -> dict[str, list[str]]:
    """Return the dotted names of each section; a name that several folders export is listed where it comes first."""
    seen: set[tuple[str, str]] = set()
    found: dict[str, list[str]] = {}
    for title, places in SECTIONS.items():
        found[title] = []
        for place in places:
            for name, home in _listed(place):
                if (home, name.rsplit(".", 1)[1]) not in seen:
                    seen.add((home, name.rsplit(".", 1)[1]))
                    found[title].append(name)
    return found


def _listed(place: str) -> list[tuple[str, str]]:
    """Return the listed names of a folder, module or member, each with the module that defines it."""
    room, _, under = place.partition(":")
    try:
        module = import_module(room)
    except ModuleNotFoundError:
        module = None
    if module is None:  # a name
        parent, name = room.rsplit(".", 1)
        return [(room, homes(parent).get(name, parent))]
    known = homes(room)
    listed = [(f"{room}.{name}", known.get(name, room)) for name in module.__all__ if name not in _NOT_LISTED]
    if not under:
        return listed
    if under == "structsvm":  # defined in the top folder itself
        return [(name, home) for name, home in listed if home.count(".") == 1]
    return [(name, home) for name, home in listed if home.startswith(f"{under}.")]


def tables() -> dict[str, tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    """Return the names that users may choose: for each kind of thing the columns and the rows."""
    from structsvm.cli.studies.diversity import METHODS
    from structsvm.export import FORMATS
    from structsvm.metrics import available_metrics
    from structsvm.online.bandits.by_name import compiled_names
    from structsvm.trainers.choosing_solver import TRAINERS

    compiled = compiled_names()
    losses = [
        (f"{one.label}{_CUTOFFS[getattr(one, 'cutoff', 'never')]}", one.__name__, _first(one))
        for one in dict.fromkeys(labelled("structsvm.oracles").values())
    ]
    trainers = [
        (name, ", ".join(sorted(one.supports)) or "smooth losses only", _first(one.fit))
        for name, one in TRAINERS.items()
    ]
    bandits = []
    for label, make in labelled("structsvm.online.bandits").items():
        assumes = _assumption(make)
        horizon = "needed" if "horizon" in signature(make).parameters else "none"
        bandits.append((label, make.__name__, horizon, "yes" if label in compiled else "no", assumes))
    mergers = [
        (name, merger.__name__, merger.rankings, merger.fairness, _first(merger))
        for name, merger in labelled("structsvm.online.interleaving", "name").items()
    ]
    return {
        "Losses": (("name", "class", "what it is"), losses),
        "Trainers": (("name", "supports", "what it does"), trainers),
        "Measures": (("name", "what it is"), list(available_metrics().items())),
        "Bandits": (("name", "class", "horizon", "compiled form", "assumes"), bandits),
        "Interleavers": (
            ("name", "class", "rankings", "if clicks ignore the documents", "what it is"),
            mergers,
        ),
        "Fixed ways of choosing documents": (
            ("name", "class", "what it is"),
            [(n, m.__name__, _first(m)) for n, m in METHODS.items()],
        ),
        "Formats of search engines": (("name",), [(name,) for name in FORMATS]),
    }


_CUTOFFS = {"never": "", "optional": ", with or without @k", "required": "@k"}


def _assumption(make: Any) -> str:
    made = make if isclass(make) else get_type_hints(make)["return"]
    if not hasattr(made, "assumes"):
        raise TypeError(f"{made.__name__}: expected a class attribute assumes, the guarantee's assumptions")
    return str(made.assumes)


def _first(member: object) -> str:
    return " ".join((member.__doc__ or "").split("\n\n")[0].split())


def _is_constant(name: str) -> bool:
    room, attribute = name.rsplit(".", 1)
    member = getattr(import_module(room), attribute)
    return not (isclass(member) or isroutine(member))


def write(path: Path) -> None:
    """Write the source of the reference pages."""
    lines = ["API reference", "=============", ""]
    for title, names in sections().items():
        lines += [
            title,
            "-" * len(title),
            "",
            ".. autosummary::",
            "   :toctree: generated",
            "   :template: plain.rst",
            "",
        ]
        lines += [*(f"   {name}" for name in names if not _is_constant(name)), ""]
        for name in filter(_is_constant, names):  # constants are described in the modules that define them
            room, attribute = name.rsplit(".", 1)
            lines += [f".. autodata:: {homes(room).get(attribute, room)}.{attribute}", "   :no-value:", ""]
    lines += ["Names to choose by", "------------------", ""]
    for title, (columns, rows) in tables().items():
        lines += [f".. list-table:: {title}", "   :header-rows: 1", ""]
        for row in (columns, *rows):
            lines += [f"   {'*' if k == 0 else ' '} - {cell}" for k, cell in enumerate(row)]
        lines.append("")
    path.write_text("\n".join(lines), encoding="utf-8")
