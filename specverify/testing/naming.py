"""Words for a failure: known bugs that fit, the command that repeats it, names of callables."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from specverify.testing.enumeration import CaseResult
from specverify.testing.options import Options

__all__ = ["command", "display_name", "known_bugs"]

_LONGEST = 2


def display_name(implementation: Any) -> str:
    """Name of a function, or of the class of another callable."""
    return str(getattr(implementation, "__name__", type(implementation).__name__))


def known_bugs(results: Sequence[CaseResult]) -> list[str]:
    """Known bugs whose exact law is the one found, on every case with short blocks.

    Args:
        results: Enumerated cases; of blocks, those with rows by context are left out.

    Returns:
        Names of the zoo, in its order.
    """
    loops = [result for result in results if result.loop is not None]
    if loops:
        fits = [_fitting_loops(result) for result in loops]
        return [name for name in fits[0] if all(name in fitting for fitting in fits)]
    from specverify.bugs.matching import FoundLaw, fitting_bugs

    return fitting_bugs(
        [
            FoundLaw(*result.rows, result.check.law.probabilities)
            for result in results
            if result.rows is not None and len(result.rows[1]) <= _LONGEST
        ]
    )


def _fitting_loops(result: CaseResult) -> list[str]:
    from specverify.bugs.matching import fitting_loops
    from specverify.bugs.scenes import Scene

    case = result.loop
    assert case is not None
    scene = Scene(
        name=case.name,
        target_next=case.target.next_probs,
        draft_next=case.draft.next_probs,
        gamma=case.gamma,
        length=case.max_new_tokens,
        vocab_size=case.target.vocab_size,
        prompt=case.prompt,
    )
    return fitting_loops(scene, result.check.law.probabilities)


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
    if options.mode != "auto":
        parts.append(f"--mode {options.mode}")
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
