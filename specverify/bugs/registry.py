"""Finds every entry of the zoo: a new bug needs one file in ``catalog`` and nothing else."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType, ModuleType

from specverify.bugs import catalog
from specverify.bugs.base import Bug, Role

__all__ = ["CONTROLS", "LOSSY", "ZOO", "collect", "members"]


def collect(package: ModuleType) -> dict[str, Bug]:
    """Every :class:`Bug` bound at the top of a module of ``package``, by name.

    Raises:
        ValueError: If two entries share a name.
    """
    found: dict[str, Bug] = {}
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        for entry in vars(module).values():
            if not isinstance(entry, Bug):
                continue
            if found.setdefault(entry.name, entry) is not entry:
                raise ValueError(f"two entries of the zoo are called {entry.name!r}")
    return found


def members() -> dict[str, Bug]:
    """The whole zoo as the catalog holds it now: bugs, then controls, then lossy ones."""
    found = collect(catalog).values()
    return {bug.name: bug for role in Role for bug in found if bug.role is role}


def _of(role: Role) -> Mapping[str, Bug]:
    return MappingProxyType({name: bug for name, bug in _ALL.items() if bug.role is role})


_ALL = collect(catalog)

ZOO = _of(Role.BUG)
"""The bugs, by name."""

CONTROLS = _of(Role.CONTROL)
"""Implementations that look wrong and are right, by name."""

LOSSY = _of(Role.LOSSY)
"""Implementations that are lossy by declaration, by name."""
