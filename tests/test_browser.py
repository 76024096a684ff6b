"""Pages in a browser: they fit a phone, load nothing, and have both colour schemes."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from structsvm import clicks
from structsvm.cli.studies import demo
from structsvm.cli.studies.folds import find_folds, run
from structsvm.cli.studies.folds.page import page as compare_page
from structsvm.clicks.page import clicks_page
from structsvm.plots import pages
from structsvm.plots.figures import Matrix, differences
from structsvm.readers import make_ranking, write_letor

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium found to look at the pages")

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-sync",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--allow-file-access-from-files",
    "--virtual-time-budget=2000",
]
DARK, LIGHT = 0, 1
EVIL = "<script>document.title='taken'</script><img src=x onerror=alert(1)>\"'&"
# what the measuring page asks of the page in its frame
MEASURE = """
const at = document.getElementById('page'), inside = at.contentDocument, root = inside.documentElement;
const wide = [...inside.querySelectorAll('body *')].filter(e =>
  !e.closest('.scroll') && e.getBoundingClientRect().right > root.clientWidth + 1);
const style = e => at.contentWindow.getComputedStyle(e);
// texts of a chart on each other, or cut at its edge
const meets = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
  Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2;
inside.querySelectorAll('details').forEach(d => d.open = true);
const clashes = [];
for (const chart of inside.querySelectorAll('svg[role=img]')) {
  const edge = chart.getBoundingClientRect();
  const words = [...chart.querySelectorAll('text')].map(e => [e.textContent, e.getBoundingClientRect()]);
  words.forEach(([word, box], i) => {
    if (box.left < edge.left - 1 || box.right > edge.right + 1 || box.top < edge.top - 1 ||
        box.bottom > edge.bottom + 1)
      clashes.push('cut: ' + word);
    words.slice(i + 1).forEach(([other, box2]) => meets(box, box2) && clashes.push(word + ' / ' + other));
  });
}
document.body.textContent = JSON.stringify({
  clashes, scripts: inside.scripts.length, title: inside.title, text: inside.body.textContent,
  images: [...inside.images].filter(i => !i.src.startsWith('data:')).length,
  loaded: at.contentWindow.performance.getEntriesByType('resource').map(e => e.name)
    .filter(name => !name.startsWith('data:')),
  headings: [...inside.querySelectorAll('h2')].map(e => e.textContent),
  tables: inside.querySelectorAll('table').length, charts: inside.querySelectorAll('svg[role=img]').length,
  height: root.scrollHeight,
  width: root.clientWidth, content: root.scrollWidth, wide: wide.map(e => e.tagName),
  scroll: [...inside.querySelectorAll('section > figure > .scroll')].map(e => [e.clientWidth, e.scrollWidth]),
  back: style(inside.body).backgroundColor, ink: style(inside.body).color,
  line: style(inside.querySelector('[style*="stroke: var(--s"]')).stroke,
  broken: [...inside.images].filter(i => !i.naturalWidth).length,
});
"""


def seen(text: str, folder: Path, width: int, scheme: int) -> dict:
    """Return the size of a page in a frame of ``width`` pixels (windows are wider); check rules of all pages."""
    page, frame = folder / "page.html", folder / "frame.html"
    page.write_text(text)
    frame.write_text(
        f'<body><iframe id="page" src="{page.name}" style="width:{width}px;height:900px;border:0"></iframe>'
        f"<script>addEventListener('load', () => {{{MEASURE}}})</script>"
    )
    command = [BROWSER, *FLAGS, "--enable-logging=stderr", f"--user-data-dir={folder / 'profile'}"]
    command += [f"--blink-settings=preferredColorScheme={scheme}", "--dump-dom", frame.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    measures = re.search(r"<body>(\{.*?\})</body>", done.stdout, re.DOTALL)
    assert measures, done.stdout[:2000] + done.stderr[-2000:]
    found = json.loads(html.unescape(measures[1]))
    assert found["width"] == width
    assert found["content"] <= width
    assert found["wide"] == []
    assert found["clashes"] == []
    assert (found["broken"], found["images"], found["scripts"], found["loaded"]) == (0, 0, 0, [])
    back, ink, line = (sum(map(int, re.findall(r"\d+", found[k])[:3])) for k in ("back", "ink", "line"))
    assert (ink > back) == (scheme == DARK)
    assert abs(ink - back) > 450
    assert abs(line - back) > 200
    assert "CONSOLE" not in done.stderr
    return found


def page_text() -> str:
    """Return one of each piece of a page, with content wider than a phone."""
    rng = np.random.default_rng(0)
    passes = [
        pages.Series(f"a system of a rather long name {i}", [1, 2, 9], [1, 0.1, 10.0**-i]) for i in range(4)
    ]
    columns = [pages.Column("System"), *(pages.Column(f"measure {j}", True) for j in range(5))]
    return pages.page(
        "A title with-a-very-long-word-" + "x" * 60,
        pages.section(
            "Table",
            pages.table(
                columns, [["System " * 3, *["0.1234"] * 5]] * 3, caption="A caption " * 12, highlight=1
            ),
        ),
        pages.section("Lines", pages.line_chart(passes, x="passes", y="gap", log_y=True, mark=0.01)),
        pages.section("Differences", pages.draw(differences(rng.normal(size=50), measure="d"))),
        pages.section("Bars", pages.bar_list(["feature" * 9, "b"], [1.0, -0.3], caption="weights")),
        pages.section("Image", pages.draw(Matrix(rng.normal(size=(8, 8)), "w"))),
        lead="x" * 80,
    )


@pytest.mark.parametrize(("width", "scheme"), [(390, DARK), (1100, LIGHT)])
def test_page_fits_and_shows_its_scheme(width, scheme, tmp_path):
    found = seen(page_text(), tmp_path, width, scheme)
    ((box, table),) = found["scroll"]  # the table scrolls in its own box, where it must
    assert (table > box) == (width == 390)


def compare_text(folder: Path) -> str:
    """Return a comparison of six methods, more than a chart has lines for."""
    write_letor(make_ranking(30, 8, 4, random_state=1), folder / "rows.txt")
    folds = find_folds(folder / "rows.txt", n_folds=3)
    return compare_page(
        run(
            folds,
            ["svm-map", "svm-roc", "svm-ndcg@10", "ranksvm", "acc2", "best-feature"],
            [0.01, 1.0, 100.0],
        ),
        EVIL,
    )


def demo_text(folder: Path) -> str:
    parts = [make_ranking(25, 8, 64, random_state=seed) for seed in (0, 1)]
    task = demo.Task(EVIL, EVIL, *parts, baselines={EVIL: parts[1].X[:, 0].astype(float)})
    (folder / "demo.html").write_text(demo.page(demo.run(task, n_jobs=1)))
    return (folder / "demo.html").read_text()


def clicks_text() -> str:
    """Return the page about clicks with all sections, for queries and documents with hostile ids."""
    rng = np.random.default_rng(0)
    session = np.repeat(np.arange(400), 20)
    query = np.array([f"{EVIL}{i}" for i in range(3)])[session % 3]
    position = np.tile(np.arange(1, 21), 400)
    document = np.concatenate([rng.permutation(20) for _ in range(400)]).astype(str)
    clicked = rng.random(8000) < 0.6 / np.sqrt(position)
    cells = clicks.ClickCells.from_arrays(
        query, np.char.add(EVIL, document), position, clicked, session=session
    )
    queries = np.repeat(cells.query_ids, np.diff(cells.offsets))
    theta = clicks.harvest(cells)
    models = [clicks.PositionBasedModel(), clicks.SimplifiedDynamicBayesianModel()]
    chosen = clicks.ClickSVMCV()
    chosen.Cs_, chosen.scores_, chosen.C_ = np.array([0.01, 1, 100]), np.array([0.61, 0.625, 0.63]), 100.0
    return clicks_page(
        EVIL,
        cells,
        propensities=theta,
        qualities=[(type(m).__name__, clicks.model_quality(m.fit(cells), cells)) for m in models],
        estimate=clicks.evaluate_from_clicks(
            cells, queries, cells.docid, rng.random(cells.n_rows), propensities=theta
        ),
        weights=[("effective number of clicks", "1,234,567.8"), ("loss", "pairs")],
        search=chosen,
        judged=clicks.judgments(cells),
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return text, headings in order, and minimum numbers of tables and charts for each page."""
    folder = tmp_path_factory.mktemp("pages")
    return {
        "compare": (
            compare_text(folder),
            ["Result", "map, roc, ndcg@10, pairs against C, validation queries", "Differences by query"],
            3,
            2 + 5,
        ),
        "demo": (
            demo_text(folder),
            ["Result", "Learned weights", "Convergence", "Differences by query"],
            1,
            2 + 2,
        ),
        "clicks": (
            clicks_text(),
            ["New ranker", "Training", "Judgments", "Propensities", "Click models", "Left out"],
            7,
            3,
        ),
    }


@pytest.mark.parametrize("name", ["compare", "demo", "clicks"])
@pytest.mark.parametrize(("width", "scheme"), [(360, LIGHT), (1100, DARK)])
def test_pages_of_the_commands(name, width, scheme, written, tmp_path):
    text, headings, tables, charts = written[name]
    found = seen(text, tmp_path, width, scheme)
    assert found["headings"] == headings
    assert found["tables"] >= tables
    assert found["charts"] >= charts
    # what came from outside is text
    assert found["title"] == (f"Clicks: {EVIL}" if name == "clicks" else EVIL)
    assert EVIL in found["text"]
    assert f"{EVIL}1" in found["text"] or name != "clicks"
