"""Pages and messages escape control characters of ids and names."""

from pathlib import Path

import pytest

from structsvm.cli.terminal import emit, note, table_lines
from structsvm.common.escaping import escape, printable
from structsvm.plots import pages

NASTY = "q\x1b[2J\x9b1m\x7f\x00\u202e\r\ud800"
WRITTEN = "q\\x1b[2J\\x9b1m\\x7f\\x00\\u202e\\x0d\\ud800"


def test_control_characters_are_written_out():
    assert printable(NASTY) == WRITTEN
    assert escape(f"<{NASTY}>") == f"&lt;{WRITTEN}&gt;"
    plain = "Zürich 日本\t→ \\x1b\n"
    assert printable(plain) == plain


def test_messages_and_tables_contain_no_control_characters(capsys):
    note(f"error: {NASTY}")
    emit([NASTY, *table_lines([pages.Column("query")], [[NASTY]])])
    out, err = capsys.readouterr()
    assert "q\\x1b[2J\\x9b1m" in err
    assert "q\\x1b[2J\\x9b1m" in out
    assert all(c.isprintable() or c == "\n" for c in out + err)


@pytest.mark.parametrize("options", ["", "--json"])
def test_ids_printed_by_evaluate_contain_no_control_characters(options, cli):
    Path("data.txt").write_text("1 qid:a\x1b[31m 1:1\n0 qid:a\x1b[31m 1:0\n")
    Path("scores.txt").write_text("2\n1\n")
    out = cli("evaluate data.txt scores.txt --per-query", options)
    assert "[31m" in out
    assert "\x1b" not in out + cli.err
