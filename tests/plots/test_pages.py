"""The pieces of a page: everything escaped, numbers and axes right, nothing loaded from elsewhere, empty input."""

import re
from html.parser import HTMLParser

import pytest
from markupsafe import Markup

from structsvm.plots import colours, figures, pages

HOSTILE = "</title><script src='http://x'>\"&"
VOID = {"meta", "img"}


class Checker(HTMLParser):
    """Check that every tag is closed in order, and keep the text and attributes."""

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
        pages.side_by_side(
            pages.table([pages.Column(word), pages.Column(word, True)], [[word, word]], caption=word)
        ),
        pages.line_chart(series, x=word, y=word, log_y=True, mark=0.2),
        pages.line_chart([], x=word, y=word),
        pages.draw(figures.Differences([0.1, -0.2], word, word)),
        pages.bar_list([word], [1.0], caption=word),
        pages.draw(figures.Matrix([[1.0, -1.0]], word)),
        pages.draw(figures.Histogram([1, 2], [0, 1, 2], word, word)),
    ]


def test_whatever_comes_in_is_text():
    page = Checker(pages.page(HOSTILE, *every_piece(HOSTILE), lead=HOSTILE))
    assert "script" not in page.seen
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    addresses = [value for name, value in page.attributes if name in ("src", "href", "xlink:href", "action")]
    assert addresses
    assert all(value.startswith(("data:image/png;base64,", "#")) for value in addresses)
    assert "".join(page.words).count(HOSTILE) >= 12


def test_control_characters_are_written_out():
    nasty = "q\x1b[2J\x9b1m\u202e\ud800"
    text = pages.page(nasty, *every_piece(nasty), lead=nasty)
    assert "q\\x1b[2J\\x9b1m\\u202e\\ud800" in text
    assert all(c.isprintable() or c == "\n" for c in text)


def test_a_page_refuses_to_load_anything():
    text = pages.page("t", *every_piece("plain"))
    assert not re.search(r"https?:|<script|<link|@import|url\((?!#)", text)
    page = Checker(text)
    policy = next(value for name, value in page.attributes if name == "content" and "default-src" in value)
    assert "default-src 'none'" in policy
    assert ("name", "viewport") in page.attributes
    assert ("lang", "en") in page.attributes


def test_each_chart_says_what_it_shows():
    for piece in every_piece("a word"):
        tags = Checker(piece).seen
        assert tags.count("title") >= tags.count("svg")


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "+0.00"), (-0.126, "−0.13"), (99.0, "+99.00"), (-12345.0, "−1.23e+04")]
)
def test_signed_numbers(value, text):
    assert pages._signed(value) == text


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
        pages.draw(figures.Matrix([[0.0, 0.0]], "t")),
        pages.table([pages.Column("a")], [], caption="c"),
        pages.side_by_side(),
        pages.page("t"),
    ],
)
def test_empty_figures_are_valid_html(piece):
    assert Checker(piece).seen
    assert not re.search(r"\b(nan|inf)\b", piece)


def test_signs_of_cells_are_written():
    assert re.findall(r">([+−])<", pages.draw(figures.Matrix([[2.0, -1.0, 0.01]], "t"))) == ["+", "−"]
    assert re.findall(r">([+−])<", pages.draw(figures.Matrix([[2.0, 1.0]], "t"))) == []


@pytest.mark.parametrize(
    ("p", "cell", "said"),
    [
        (0.0, "<0.0001", "p < 0.0001"),
        (9.9e-5, "<0.0001", "p < 0.0001"),
        (1e-4, "0.0001", "p = 0.0001"),
        (1.0, "1.0000", "p = 1.0000"),
    ],
)
def test_p_values_in_a_table_and_in_a_sentence(p, cell, said):
    assert (pages.p_value(p), pages.p_said(p)) == (cell, said)


def test_a_page_of_a_service_comes_again_and_may_hold_frames():
    plain = pages.page("t")
    assert 'http-equiv="refresh"' not in plain
    assert "frame-src" not in plain
    above = '<nav><a href="/">all</a></nav>'
    live = pages.render(
        "plots/templates/page.html",
        title="t",
        body="",
        above=Markup(above),
        style="nav{color:red}",
        refresh=10,
        frames=True,
    )
    Checker(live)
    assert '<meta http-equiv="refresh" content="10">' in live
    assert "frame-src 'self'" in live
    assert live.index("<nav>") < live.index("<h1>")
    assert "nav{color:red}</style>" in live


def test_a_notebook_has_the_rules_of_pages_inside_a_box():
    style = pages.style_in("box")
    assert style.startswith("<style>.box{")
    assert ":root" not in style
    rules = style.split("\n", 4)[4].removesuffix("}</style>").rstrip()
    assert rules in pages.page("t")
    assert rules.count("{") == rules.count("}")


def test_sixteen_lines_differ():
    assert len({colours.line_style(i) for i in range(16)}) == 16
    # the first four do without colour
    assert len({colours.line_style(i)[2] for i in range(4)}) == 4
