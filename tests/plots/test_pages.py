"""The pieces of a page: everything escaped, numbers and axes right, nothing loaded from elsewhere, empty input."""

from __future__ import annotations

import base64
import io
import itertools
import math
import re
from html.parser import HTMLParser

import pytest
from markupsafe import Markup

from structsvm.plots import charts, colours, figures, pages

HOSTILE = "</title><script src='http://x'>\"&"
VOID = {"meta", "img"}


class Checker(HTMLParser):
    """Every tag is closed in order; the text and the attributes seen are kept."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.words, self.attributes = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)
        self.attributes += attrs

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def every_piece(word: str) -> list[str]:
    series = [pages.Series(word, [1, 2], [0.5, 0.1])]
    return [
        pages.section(word, pages.paragraph(word), pages.paragraph(word, small=True)),
        pages.details(word, pages.paragraph(word)),
        pages.side_by_side(
            pages.table([pages.Column(word), pages.Column(word, True)], [[word, word]], caption=word)
        ),
        pages.line_chart(series, x=word, y=word, log_y=True, mark=0.2),
        pages.line_chart([], x=word, y=word),
        pages.draw(figures.Differences([0.1, -0.2], word, word)),
        pages.bar_list([word], [1.0], caption=word),
        pages.weight_image([[1.0, -1.0]], title=word, caption=word),
        pages.picture([[0.0, 1.0]], alt=word),
        pages.rankings(
            pages.picture([[1.0]], alt=word), word, [pages.Shelf(word, word, [("<i>a</i>", True)])]
        ),
    ]


def test_whatever_comes_in_is_text():
    page = Checker(pages.page(HOSTILE, *every_piece(HOSTILE), lead=HOSTILE))
    assert "script" not in page.seen
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    addresses = [value for name, value in page.attributes if name in ("src", "href", "xlink:href", "action")]
    assert addresses
    assert all(value.startswith("data:image/png;base64,") for value in addresses)
    assert "".join(page.words).count(HOSTILE) >= 12


def test_control_characters_are_written_out():
    nasty = "q\x1b[2J\x9b1m\u202e\ud800"
    text = pages.page(nasty, *every_piece(nasty), lead=nasty)
    assert "q\\x1b[2J\\x9b1m\\u202e\\ud800" in text
    assert all(c.isprintable() or c == "\n" for c in text)


def test_a_page_refuses_to_load_anything():
    text = pages.page("t", *every_piece("plain"))
    assert not re.search(r"https?:|<script|<link|@import|url\(", text)
    page = Checker(text)
    policy = next(value for name, value in page.attributes if name == "content" and "default-src" in value)
    assert "default-src 'none'" in policy
    assert ("name", "viewport") in page.attributes
    assert ("lang", "en") in page.attributes


def test_each_chart_says_what_it_shows():
    for piece in every_piece("a word"):
        tags = Checker(piece).seen
        # the keys of a legend are decoration
        assert tags.count("title") >= tags.count("svg") - tags.count("ul")


def test_a_table_scrolls_in_a_box_that_the_keyboard_reaches():
    columns = [pages.Column("name"), pages.Column("n", True)]
    text = pages.table(columns, [["a", "1"], ["b", "2"]], caption="c", highlight=1)
    page = Checker(text)
    assert page.attributes.count(("tabindex", "0")) == 1
    assert page.attributes.count(("scope", "col")) == 2
    assert page.attributes.count(("scope", "row")) == 2
    assert '<tr class=best><th scope="row">b' in text
    assert text.index("figcaption") < text.index('class="scroll"')


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "+0.00"), (-0.126, "−0.13"), (99.0, "+99.00"), (-12345.0, "−1.23e+04")]
)
def test_signed_numbers(value, text):
    assert pages._signed(value) == text


def test_a_log_chart_leaves_out_what_it_cannot_show():
    series = [pages.Series("a", [1, 2, 3, 4], [1.0, 0.0, math.nan, 0.1]), pages.Series("b", [1], [-1.0])]
    chart = pages.line_chart(series, x="x", y="y", log_y=True)
    assert "a ends at 0.1" in chart
    assert ">b<" not in chart
    assert "nan" not in chart


def coordinates(chart: str) -> list[tuple[float, float]]:
    path = re.search(r'class="line" stroke-dasharray="" d="M([^"]*)"', chart).group(1)
    return [tuple(map(float, point.split())) for point in path.split("L")]


def test_points_lie_where_their_values_say():
    chart = pages.line_chart([pages.Series("a", [0, 5, 10], [1.0, 0.1, 0.01])], x="x", y="y", log_y=True)
    (x0, y0), (x1, y1), (x2, y2) = coordinates(chart)
    assert x1 - x0 == pytest.approx(x2 - x1)
    assert y1 - y0 == pytest.approx(y2 - y1)  # equal factors are equal steps
    assert y0 < y2  # up is more


def test_a_band_has_the_ends_given():
    ends = {"low": [0.4, 0.1, 0.0], "high": [0.4, 0.5, 0.8]}
    series = pages.Series("a", [1, 2, 3], [0.4, 0.3, 0.2], **ends)
    chart = pages.line_chart([series], x="x", y="y", whole_x=True)
    line = coordinates(chart)
    corners = re.search(r'class="band" d="M([^"]*)Z"', chart).group(1)
    x, y = zip(*(map(float, corner.split()) for corner in corners.split("L")), strict=True)
    assert x == tuple([p[0] for p in line] + [p[0] for p in reversed(line)])
    unit = (line[1][1] - line[0][1]) / 0.1  # y grows downwards
    expected = [line[0][1] + (0.4 - v) * unit for v in (0.4, 0.5, 0.8, 0.0, 0.1, 0.4)]
    assert expected == pytest.approx(y, abs=0.3)
    narrow = pages.line_chart([pages.Series("a", [1], [1.0], [1.0], [1.0])], x="x", y="y")
    assert 'class="band"' not in narrow


def test_charts_side_by_side_have_the_same_axis():
    values = {"a": [0.3, 0.9], "b": [0.1, 0.5]}
    ends = min(map(min, values.values())), max(map(max, values.values()))
    heights = []
    for name, ys in values.items():
        both = [pages.Series(name, [0, 1], ys), pages.Series("c", [0, 1], [0.4, 0.4])]
        chart = pages.line_chart(both, x="x", y="y", y_range=ends)
        heights.append(re.findall(r' d="M([^"]*)"', chart)[-1].split()[1])
    assert heights[0] == heights[1]


def test_lines_are_told_apart_without_colour():
    series = [pages.Series(str(i), [0, 1], [i, i + 1]) for i in range(4)]
    chart = pages.line_chart(series, x="x", y="y")
    figure, legend = chart.split("<ul")
    for part in (figure, legend):
        assert len(set(re.findall(r'stroke-dasharray="([^"]*)"', part))) == 4


@pytest.mark.parametrize(
    "piece",
    [
        pages.line_chart([], x="x", y="gap"),
        pages.line_chart([pages.Series("a", [], [])], x="x", y="gap"),
        pages.line_chart([pages.Series("a", [0], [0.0])], x="x", y="gap"),
        pages.line_chart([pages.Series("a", [1], [1.0])], x="x", y="gap", log_y=True),
        pages.draw(figures.Differences([], "y")),
        pages.draw(figures.Differences([0.0, 0.0], "y")),
        pages.bar_list([], [], caption="c"),
        pages.bar_list(["a"], [0.0], caption="c"),
        pages.weight_image([[0.0, 0.0]], title="t", caption="c"),
        pages.table([pages.Column("a")], [], caption="c"),
        pages.side_by_side(),
        pages.rankings("", "t", []),
        pages.page("t"),
    ],
)
def test_nothing_to_show_is_still_a_piece(piece):
    assert Checker(piece).seen
    assert "nan" not in piece
    assert "inf" not in piece.replace("infer", "")


def test_a_picture_is_a_png_of_its_pixels():
    image = pytest.importorskip("matplotlib.image", reason="matplotlib reads the picture back")
    text = pages.picture([[0.0, 1.0, 2.0], [0.5, -1.0, 0.25]], alt="a")
    data = base64.b64decode(re.search(r"base64,([^\"]*)", text).group(1))
    pixels = image.imread(io.BytesIO(data), format="png")
    assert pixels.shape[:2] == (2, 3)
    shown = pixels if pixels.ndim == 2 else pixels[:, :, 0]
    assert shown.ravel().tolist() == pytest.approx([1, 0, 0, 0.5, 1, 0.75], abs=1 / 255)  # dark is more


def test_signs_of_weights_are_written():
    text = pages.weight_image([[2.0, -1.0, 0.01]], title="t", caption="c")
    assert re.findall(r'class="sign"[^>]*>(.)<', text) == ["+", "−"]
    assert "+2.00" in text
    assert "−1.00" in text


@pytest.mark.parametrize(
    ("p", "cell", "said"),
    [(0.0, "<0.0001", "p < 0.0001"), (9.9e-5, "<0.0001", "p < 0.0001"), (1e-4, "0.0001", "p = 0.0001"),
     (1.0, "1.0000", "p = 1.0000")],
)  # fmt: skip
def test_p_values_in_a_table_and_in_a_sentence(p, cell, said):
    assert (pages.p_value(p), pages.p_said(p)) == (cell, said)


def test_a_page_of_a_service_comes_again_and_may_hold_frames():
    plain = pages.page("t")
    assert 'http-equiv="refresh"' not in plain
    assert "frame-src" not in plain
    above = '<nav><a href="/">all</a></nav>'
    live = pages.render(
        "plots/templates/page.html", title="t", body="", above=Markup(above), style="nav{color:red}", refresh=10,
        frames=True,
    )  # fmt: skip
    Checker(live)
    assert '<meta http-equiv="refresh" content="10">' in live
    assert "frame-src 'self'" in live
    assert live.index("<nav>") < live.index("<h1>")
    assert "nav{color:red}</style>" in live


def test_every_ground_has_the_same_colours():
    page, notebook = pages.page("t"), pages.style_in("box")
    for name, (light, dark, either) in colours.COLOURS.items():
        assert re.findall(rf"--{name}:(#\w+)", page) == [light, dark]
        assert re.findall(rf"--{name}:(#\w+)", notebook) == [either]
    # what raises the score is orange, what lowers it blue, in notebooks as in pages
    for colour, sign in (
        (c, sign) for name, sign in (("pos", 1), ("neg", -1)) for c in colours.COLOURS[name]
    ):
        red, blue = int(colour[1:3], 16), int(colour[5:], 16)
        assert sign * (red - blue) > 0


def test_a_notebook_has_the_rules_of_pages_inside_a_box():
    style = pages.style_in("box")
    assert style.startswith("<style>.box{")
    assert ":root" not in style
    rules = style.split("\n", 4)[4].removesuffix("}</style>").rstrip()
    assert rules in pages.page("t")
    assert rules.count("{") == rules.count("}")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (0.1 + 0.2, "0.3"), (-2.5, "−2.5"), (1234.0, "1234"), (1e-4, "10⁻⁴"), (1e6, "10⁶"),
        (3e-7, "3·10⁻⁷"), (-2e8, "−2·10⁸"),
    ],
)  # fmt: skip
def test_numbers_on_an_axis(value, text):
    assert charts.number(value) == text


@pytest.mark.parametrize(
    ("low", "high"), [(0.02, 0.7), (1e-4, 1.0), (1e-12, 3.0), (0.1, 0.1), (1e-300, 1e300), (5e-5, 6e-5)]
)
def test_a_log_axis_covers_its_values_with_powers_of_ten(low, high):
    axis = charts.Axis(low, high, log=True)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 7
    for tick in ticks:
        assert math.log10(tick) == pytest.approx(round(math.log10(tick)), abs=1e-9)
        assert -1e-9 <= axis.share(tick) <= 1 + 1e-9
    assert -1e-9 <= axis.share(low) <= axis.share(high) <= 1 + 1e-9
    assert axis.share(axis.low) == pytest.approx(0)
    assert axis.share(axis.high) == pytest.approx(1)


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 1), (0, 0.0735), (-0.3, 0.7), (0, 123456), (5, 5), (0, 0), (-1e-9, 1e-9), (1e9, 1e9 + 1)],
)
def test_a_linear_axis_covers_its_values_with_even_round_steps(low, high):
    axis = charts.Axis(low, high, log=False)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 8
    steps = [b - a for a, b in itertools.pairwise(ticks)]
    assert steps == pytest.approx([axis.step] * len(steps), rel=1e-6)
    assert f"{axis.step:.0e}"[0] in "125"
    assert axis.low <= low + 1e-6 * axis.step
    assert axis.high >= high - 1e-6 * axis.step


@pytest.mark.parametrize(
    ("low", "high"), [(1, 1), (1, 2), (1, 6), (1, 10), (1, 11), (0, 20), (1, 500), (1, 100_000)]
)
def test_an_axis_of_whole_numbers_begins_at_the_first(low, high):
    axis = charts.Axis(low, high, log=False, whole=True)
    ticks = axis.ticks()
    assert ticks[0] == low
    assert ticks[-1] <= high
    assert all(isinstance(tick, int) for tick in ticks)
    assert ticks == sorted(set(ticks))
    assert len(ticks) <= 7
    assert high == low or (axis.share(low), axis.share(high)) == (0, 1)


def test_what_is_outside_is_drawn_at_the_edge():
    frame = charts.Frame(charts.Axis(1, 100, log=True), charts.Axis(0, 1, log=False))
    assert frame.at(1, 0) == (charts.MARGIN[0], charts.HEIGHT - charts.MARGIN[3])
    assert frame.at(100, 1) == (charts.WIDTH - charts.MARGIN[1], charts.MARGIN[2])
    assert frame.at(10, 7.0) == frame.at(10, 1)
    assert frame.at(10, -7.0) == frame.at(10, 0)


def test_sixteen_lines_differ():
    assert len({colours.line_style(i) for i in range(16)}) == 16
    # the first four do without colour
    assert len({colours.line_style(i)[2] for i in range(4)}) == 4
