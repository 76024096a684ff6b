"""Escape text from files, so that terminals and pages show control characters instead of interpreting them."""

import html
import re

# C0 except tab and newline, DEL, C1, marks that change the direction of text, and lone surrogates
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Return ``text`` with escapes for control characters, which could recolour, move or erase terminal output."""
    return _UNPRINTABLE.sub(_escaped, text)


def escape(text: str) -> str:
    """Return ``text`` escaped for HTML, with control characters escaped as in :func:`printable`."""
    return html.escape(printable(text))


def _escaped(character: re.Match[str]) -> str:
    # C0, DEL and C1 get two hexadecimal digits, the others four
    code = ord(character[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
