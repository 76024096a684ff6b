"""Text from files as terminals and pages show it: control characters are written out, never carried out."""

from __future__ import annotations

import html
import re

# C0 but tab and newline, DEL, C1, what turns the direction of writing, and halves of surrogate pairs
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """``text`` with escapes for control characters, which could recolour, move or erase what a terminal shows."""
    return _UNPRINTABLE.sub(_written_out, text)


def escape(text: str) -> str:
    """``text`` for HTML, without the control characters that are not allowed there."""
    return html.escape(printable(text))


def _written_out(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
