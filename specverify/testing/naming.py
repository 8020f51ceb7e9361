"""Words for a failure: known bugs that fit, the command that repeats it, names of callables."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from specverify.testing.enumeration import CaseResult
from specverify.testing.options import Options

__all__ = ["command", "display_name", "fitting_bugs", "stage_of"]

_EQUAL_LAWS = 1e-6
_LONGEST = 2


def display_name(implementation: Any) -> str:
    """Name of a function, or of the class of another callable."""
    return str(getattr(implementation, "__name__", type(implementation).__name__))


def fitting_bugs(results: Sequence[CaseResult]) -> list[str]:
    """Known bugs whose exact law is the one found, on every case with short blocks.

    Args:
        results: Enumerated cases; those with rows by context are left out.

    Returns:
        Names of the zoo, in its order.
    """
    from specverify.bugs import ZOO
    from specverify.bugs.staged import StagedVerifier

    short = [r for r in results if r.rows is not None and len(r.rows[1]) <= _LONGEST]
    verifiers = {n: b.callable for n, b in ZOO.items() if isinstance(b.callable, StagedVerifier)}
    if not short:
        return []
    return [name for name, bug in verifiers.items() if all(_same_law(bug, r) for r in short)]


def stage_of(bug: str) -> str:
    """Where in the algorithm a known bug sits."""
    from specverify.bugs import ZOO

    return str(ZOO[bug].stage)


def _same_law(verifier: Any, result: CaseResult) -> bool:
    from specverify.bugs.laws import block_law, law_distance

    assert result.rows is not None
    with np.errstate(all="ignore"):
        law = block_law(verifier, *result.rows)
    return law_distance(law, result.check.law.probabilities) <= _EQUAL_LAWS


def command(implementation: Callable[..., Any], options: Options) -> str | None:
    """The command that audits this implementation, or None where no name leads to it.

    Args:
        implementation: The callable.
        options: How it was looked at.
    """
    path = _path(implementation)
    qualified = getattr(implementation, "__qualname__", "")
    if path is None or not qualified or "<" in qualified:
        return None
    parts = [f"specverify audit {path}:{qualified}", f"--form {options.form}"]
    if options.framework is not None:
        parts.append(f"--framework {options.framework}")
    return " ".join([*parts, f"--seed {options.seed}"])


def _path(implementation: Any) -> str | None:
    try:
        source = inspect.getsourcefile(inspect.unwrap(implementation))
    except TypeError:
        return None
    if source is None or not Path(source).is_file():
        return None
    relative = os.path.relpath(source)
    return source if relative.startswith("..") else relative
