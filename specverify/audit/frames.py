"""Frames of an append-only file: each tells whether it is whole.

A file is a magic word and frames: length of the payload and its checksum, a checksum of these two,
and the payload. Numbers have four bytes, the least significant first; checksums are CRC-32.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

from specverify.errors import InvalidInputError

__all__ = ["MAGIC", "intact_frames", "make_frame"]

MAGIC = b"specverify ledger\n"


def make_frame(payload: bytes) -> bytes:
    """The frame of a payload."""
    head = _number(len(payload)) + _number(zlib.crc32(payload))
    return head + _number(zlib.crc32(head)) + payload


def intact_frames(data: bytes, path: Path) -> Iterator[tuple[bytes, int]]:
    """Read frames.

    Args:
        data: Content of the file.
        path: The file, for messages.

    Yields:
        Payload and end (an offset in ``data``) of every frame; a torn last one is left out.

    Raises:
        InvalidInputError: If it is no such file, or damaged elsewhere than in its last frame.
    """
    if not data.startswith(MAGIC):
        raise InvalidInputError("ledger", f"{path} is not a ledger")
    start = len(MAGIC)
    while start < len(data):
        head, check = data[start : start + 8], data[start + 8 : start + 12]
        if len(check) < 4:
            return
        if _number(zlib.crc32(head)) != check:
            if not any(data[start:]):
                return  # a power cut left room that was never written
            raise _damaged(path, start)
        end = start + 12 + int.from_bytes(head[:4], "little")
        payload = data[start + 12 : end]
        if _number(zlib.crc32(payload)) != head[4:]:
            if end >= len(data):
                return
            raise _damaged(path, start)
        yield payload, end
        start = end


def _damaged(path: Path, where: int) -> InvalidInputError:
    text = f"{path} is damaged at byte {where:,}; --fresh starts anew"
    return InvalidInputError("ledger", text)


def _number(value: int) -> bytes:
    return value.to_bytes(4, "little")
