"""What tells one version of an implementation from another: its source, and its distribution."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from specverify.audit.signatures import unwrapped

__all__ = ["fingerprint"]


def fingerprint(implementation: Any) -> dict[str, Any]:
    """Tell the version of an implementation.

    Only the file that defines it is looked at, and the distribution that the file belongs to:
    an edited helper in another file of the same checkout is not noticed.

    Args:
        implementation: A function, a callable object or an engine.

    Returns:
        ``source``: SHA-256 of the file that defines it, or None where there is none;
        ``distribution``: name and version, or None.
    """
    defining = unwrapped(implementation) if callable(implementation) else implementation
    module = getattr(defining, "__module__", None) or type(defining).__module__
    path = getattr(sys.modules.get(module), "__file__", None)
    return {
        "source": None if path is None else _hash_of(Path(path)),
        "distribution": _distribution(module.partition(".")[0]),
    }


def _hash_of(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def _distribution(package: str) -> str | None:
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        names = _distributions().get(package, [])
    return f"{names[0]} {metadata.version(names[0])}" if names else None


@cache
def _distributions() -> dict[str, list[str]]:
    return {package: list(names) for package, names in metadata.packages_distributions().items()}
