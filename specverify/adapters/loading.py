"""Modules of audited libraries, which need not be there."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

from specverify.errors import MissingDependencyError

__all__ = ["load_file", "load_module"]


def load_module(name: str, package: str) -> Any:
    """A module of a library.

    Args:
        name: What it is imported as.
        package: What it is installed as, and the extra that brings it.

    Raises:
        MissingDependencyError: If it cannot be imported.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingDependencyError(package, package) from error


def load_file(name: str, path: str, package: str) -> Any:
    """One file of a package, without the package's own ``__init__``.

    Args:
        name: What the package is imported as.
        path: The file in it.
        package: What it is installed as, and the extra that brings it.

    Raises:
        MissingDependencyError: If the package is not installed.
    """
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise MissingDependencyError(package, package)
    file = Path(next(iter(found.submodule_search_locations))) / path
    spec = importlib.util.spec_from_file_location(f"_{name}_alone", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
