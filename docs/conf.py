"""Sphinx: the API reference from exports and docstrings, the README as the tour, the experiments' tables."""

from __future__ import annotations

import sys
from pathlib import Path

from structsvm import __version__

sys.path.insert(0, str(Path(__file__).parent))
import reference

project = "structsvm"
author = "The structsvm developers"
release = version = __version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc", "myst_parser"]
templates_path = ["_templates"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"structsvm {release}"

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say shapes and units, which types do not
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
myst_heading_anchors = 3
# the README links to files of the repository, which are no pages here
suppress_warnings = ["myst.xref_missing", "myst.header"]

RESULTS = Path(__file__).parent.parent / "experiments" / "results"


def _write_experiments() -> None:
    """One page that includes the table of every experiment, as its script wrote it."""
    lines = ["# Experiments", "", "Tables as the scripts of `experiments/` wrote them.", ""]
    for table in sorted(RESULTS.glob("**/*.md")):
        source = table.relative_to(RESULTS.parent.parent).as_posix()
        lines += [f"```{{include}} ../{source}", ":heading-offset: 1", ":relative-images:", "```", ""]
    (Path(__file__).parent / "experiments.md").write_text("\n".join(lines))


_write_experiments()
reference.write(Path(__file__).parent / "api.rst")
