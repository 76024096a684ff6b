"""Sphinx: the manual, its gallery, the API reference from exports and docstrings, the experiments' tables."""

import re
import sys
from pathlib import Path
from typing import Any

from structsvm import __version__

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import blocks  # noqa: E402
import gallery  # noqa: E402
import reference  # noqa: E402
from shown_in import shown_in  # noqa: E402

project = "structsvm"
author = "The structsvm developers"
release = version = __version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc", "myst_parser", "mathml"]
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["manual.css"]
exclude_patterns = ["_build", "examples"]
html_theme = "furo"
html_title = f"structsvm {release}"
html_math_renderer = "mathml"
html_show_copyright = False

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings state shapes and units, which types do not
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True  # as written: the value may be an object or the environment
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
# change log and tables have headings of their own
suppress_warnings = ["myst.header"]

# their blocks start a cluster or a service, or depend on one
NOT_RUN = {"scale", "live", "live_recipes", "experiments", "results_index"}

RESULTS = HERE.parent / "experiments" / "results"

# "make docs RUN=1": blocks of pages and scripts of the gallery run, and the pages show their output
RUN = tags.has("run")  # type: ignore[name-defined]  # noqa: F821


def _write_experiments() -> None:
    """Write one page that includes the page of every experiment, as its script wrote it."""
    lines = ["# Experiments", "", "Tables as the scripts of `experiments/` wrote them.", ""]
    for table in sorted(RESULTS.glob("**/*.md")):
        source = table.relative_to(RESULTS.parent.parent).as_posix()
        lines += [
            f"({table.stem})=",
            f"```{{include}} ../{source}",
            ":heading-offset: 1",
            ":relative-images:",
            "```",
            "",
        ]
    (HERE / "experiments.md").write_text("\n".join(lines))
    # the pages of the scripts are all in that one, each under a target of its name
    index = (RESULTS.parent / "RESULTS.md").read_text()
    index = re.sub(r"\]\(results/(?:[^)]*/)?(\w+)\.md\)", r"](#\1)", index)
    index = re.sub(r"`(structsvm\.[\w.]+)`", r"{py:obj}`\1`", index.replace("](../docs/", "]("))
    (HERE / "results_index.md").write_text(index)


_write_experiments()
reference.write(HERE / "api.rst")
gallery.write(HERE / "examples", HERE / "gallery", execute=RUN)


# Directives of the build are comments in the pages, which a forge does not show
DIRECTIVES = (
    (r"<!-- wide -->", "```{rst-class} wide\n```"),
    (r"(?s).*<!-- include (\S+) -->", r"```{include} \1\n```"),
    (r"(?s)<!-- pages\n(.*?)-->", r"```{toctree}\n:hidden:\n:maxdepth: 2\n\1```"),
)

# pages link to files of the repository, so that the links work without a build
BUILT_FROM = (
    (r"\]\(((?:\.\./)?)examples/(\w+)\.py\)", r"](\1gallery/\2.md)"),
    (r"\]\(((?:\.\./)?)examples\)", r"](\1gallery/index.md)"),
    (r"\]\((?:\.\./)+experiments/results/(?:\w+/)?(\w+)\.md\)", r"](#\1)"),
    (r"\]\((?:\.\./)+experiments/RESULTS\.md\)", r"](/results_index.md)"),
    (r"\]\((?:\.\./)+structsvm/__init__\.py\)", r"](/api.rst)"),
)


def _show_output(app: Any, name: str, source: list[str]) -> None:
    """Add the output of blocks to a page, write its directives, and lead links to files to the pages built from them.

    A comment ``<!-- pages -->`` stands for the tree of the pages that the list above it links to.
    """
    page = HERE / f"{name}.md"
    if RUN and page.exists() and name not in NOT_RUN and not name.startswith(("gallery/", "project/")):
        source[0] = blocks.with_output(page, HERE / "generated" / "figures")
    listed = "\n".join(re.findall(r"^\* \[.*?\]\((\S+)\.md\)$", source[0], re.M))
    source[0] = source[0].replace("<!-- pages -->", f"<!-- pages\n{listed}\n-->")
    for files, built in (*DIRECTIVES, *BUILT_FROM):
        source[0] = re.sub(files, built, source[0])


SHOWN_IN = shown_in()


def _name_pages(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Add to the page of a class or function a list of the manual's pages whose code uses it."""
    documents = SHOWN_IN.get(id(thing), [])
    if what in ("class", "function", "exception") and documents:
        lines += [
            "",
            ".. rubric:: In the manual",
            "",
            *(f"* :doc:`{document}`" for document in documents),
            "",
        ]


def setup(app: Any) -> None:
    app.connect("source-read", _show_output)
    app.connect("autodoc-process-docstring", _name_pages, priority=900)  # after numpydoc
