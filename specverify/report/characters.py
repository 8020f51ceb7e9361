"""Text that XML and HTML can hold, whatever an audited implementation put into a message."""

from __future__ import annotations

import re

__all__ = ["printable"]

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def printable(text: str) -> str:
    """``text`` with U+FFFD for characters that XML 1.0 cannot hold (controls, lone surrogates)."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
