"""The largest uniform below one, injected where target and draft agree: nothing may be rejected."""

from __future__ import annotations

from typing import Any

import numpy as np

from specverify.audit.calls import read_tokens, split_result
from specverify.bugs import Bug
from specverify.bugs.scenes import PROMPT, SCENES
from specverify.errors import InvalidEmissionError
from specverify.results import Verdict
from specverify.selftest.outcome import Sighting
from specverify.selftest.settings import Settings

__all__ = ["LargestUniforms", "inject"]

_LARGEST = 1 - 2.0**-53
_SCENE = "equal"
_CALLS = 16


class LargestUniforms(np.random.Generator):
    """A generator whose doubles are all the largest below one; in float32 they are 1."""

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """The largest double below one, alone or of shape ``size``."""
        return _LARGEST if size is None else np.full(size, _LARGEST)


def inject(bug: Bug, _settings: Settings, seed: int) -> Sighting:
    """Verify blocks of equal laws with the largest uniforms: only possible tokens may come out."""
    scene = SCENES[_SCENE]
    generator = LargestUniforms(np.random.PCG64(seed))
    row = scene.target_next(PROMPT)
    drafts = np.random.default_rng(seed).choice(len(row), size=(_CALLS, scene.gamma), p=row)
    target, draft = np.tile(row, (scene.gamma + 1, 1)), np.tile(row, (scene.gamma, 1))
    for number, tokens in enumerate(drafts, start=1):
        emitted, _ = split_result(bug.callable(target.copy(), draft.copy(), tokens, generator))
        try:
            ids = read_tokens(emitted, scene.gamma + 1, len(row))
        except InvalidEmissionError as error:
            return _sighting(Verdict.FAIL, number, note=str(error))
        if not row[ids].all():
            return _sighting(Verdict.FAIL, number, note=f"emitted {ids}")
    return _sighting(Verdict.PASS, _CALLS)


def _sighting(verdict: Verdict, calls: int, *, note: str = "") -> Sighting:
    check = f"injected uniform[{_SCENE}]"
    return Sighting(verdict=verdict, way="injection", check=check, calls=calls, note=note)
