"""The pages in a browser: nothing sticks out on a phone, nothing is refused or amiss, both colour schemes render."""

from __future__ import annotations

import functools
import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from structsvm import report

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium found to look at the pages")

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-sync", "--disable-component-update", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--allow-file-access-from-files", "--virtual-time-budget=2000",
]  # fmt: skip
DARK, LIGHT = 0, 1
# what the measuring page asks of the page in its frame
MEASURE = """
const at = document.getElementById('page'), inside = at.contentDocument, root = inside.documentElement;
const wide = [...inside.querySelectorAll('body *')].filter(e =>
  !e.closest('.scroll') && e.getBoundingClientRect().right > root.clientWidth + 1);
const style = e => at.contentWindow.getComputedStyle(e);
document.body.textContent = JSON.stringify({
  width: root.clientWidth, content: root.scrollWidth, wide: wide.map(e => e.tagName),
  scroll: [...inside.querySelectorAll('section > figure > .scroll')].map(e => [e.clientWidth, e.scrollWidth]),
  back: style(inside.body).backgroundColor, ink: style(inside.body).color,
  line: style(inside.querySelector('.line')).stroke, broken: [...inside.images].filter(i => !i.naturalWidth).length,
});
"""


def look(page: Path, folder: Path, width: int, scheme: int) -> tuple[dict, str]:
    """Measures of ``page`` in a frame of ``width`` pixels (a window is never narrower than 500), and the log."""
    frame = folder / "frame.html"
    frame.write_text(
        f'<body><iframe id="page" src="{page.name}" style="width:{width}px;height:900px;border:0"></iframe>'
        f"<script>addEventListener('load', () => {{{MEASURE}}})</script>"
    )
    command = [BROWSER, *FLAGS, "--enable-logging=stderr", f"--user-data-dir={folder / 'profile'}"]
    command += [f"--blink-settings=preferredColorScheme={scheme}", "--dump-dom", frame.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    found = re.search(r"<body>(\{.*?\})</body>", done.stdout, re.DOTALL)
    assert found, done.stdout[:2000] + done.stderr[-2000:]
    return json.loads(html.unescape(found.group(1))), done.stderr


@functools.cache
def page_text() -> str:
    """One of every piece, with more and longer content than a phone is wide."""
    rng = np.random.default_rng(0)
    passes = [
        report.Series(f"a system of a rather long name {i}", [1, 2, 9], [1, 0.1, 10.0**-i]) for i in range(4)
    ]
    columns = [report.Column("System"), *(report.Column(f"measure {j}", True) for j in range(5))]
    image = report.picture(rng.random((8, 8)), alt="noise")
    shelf = report.Shelf("SVM-map", "AP 0.5", [(image, bool(i % 2)) for i in range(10)])
    return report.page(
        "A title with-a-very-long-word-" + "x" * 60,
        report.section(
            "Table",
            report.table(
                columns, [["System " * 3, *["0.1234"] * 5]] * 3, caption="A caption " * 12, highlight=1
            ),
        ),
        report.section("Lines", report.line_chart(passes, x="passes", y="gap", log_y=True, mark=0.01)),
        report.section(
            "Differences", report.difference_chart(rng.normal(size=50).tolist(), y="d", title="t")
        ),
        report.section("Bars", report.bar_list(["feature" * 9, "b"], [1.0, -0.3], caption="weights")),
        report.section("Image", report.weight_image(rng.normal(size=(8, 8)), title="w", caption="w")),
        report.section("Rankings", report.rankings(image, "a query", [shelf])),
        lead="x" * 80,
    )


@pytest.mark.parametrize(("width", "scheme"), [(390, DARK), (1100, LIGHT)])
def test_page_fits_and_shows_its_scheme(width, scheme, tmp_path):
    page = tmp_path / "page.html"
    page.write_text(page_text())
    found, log = look(page, tmp_path, width, scheme)
    assert found["width"] == width
    assert found["content"] <= width
    assert found["wide"] == []
    ((box, table),) = found["scroll"]  # the table scrolls in its own box, where it must
    assert (table > box) == (width == 390)
    assert found["broken"] == 0
    back, ink, line = (sum(map(int, re.findall(r"\d+", found[k])[:3])) for k in ("back", "ink", "line"))
    assert (ink > back) == (scheme == DARK)
    assert abs(ink - back) > 450
    assert abs(line - back) > 200
    assert not [text for text in log.splitlines() if "CONSOLE" in text]
