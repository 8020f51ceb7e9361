"""The explorer: one self-contained page on which sliders move the speedup over gamma.

The page's script computes what the tested Python computes. Dots of a few presets and many check
values are computed here and written into the page, which compares itself with them as it loads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from specverify.report.templating import asset, filled, trusted
from specverify.simulate.predictions import Prediction, predict
from specverify.simulate.setting import Setting

__all__ = ["PRESETS", "Preset", "explorer_data", "render_explorer"]

MAX_GAMMA = 20
TOKEN_TIME = 0.01
# Of gammas whose speedups differ by less than rounding could, the smallest is called the best.
TIE = 1e-12
_ALPHAS = (0.0, 0.1, 0.4, 0.65, 0.8, 0.9, 0.99, 1.0)
_GAMMAS = (1, 4, 7, 20)
_COSTS = (0.0, 0.05, 0.1, 0.5)
_BATCHES = (1, 16, 64, 512)


@dataclass(frozen=True)
class Preset:
    """A draft to begin with: its name, acceptance rate, and cost of a step in target steps."""

    name: str
    alpha: float
    c: float


PRESETS = (
    Preset("good draft", 0.9, 0.1),
    Preset("weak draft", 0.4, 0.1),
    Preset("cheap draft", 0.7, 0.02),
)


def explorer_data() -> dict[str, Any]:
    """What the page shows and checks, all of it computed by the closed forms of the simulator.

    Returns:
        ``settings`` (constants of the model), ``presets`` (each with ``dots``: tokens per pass and
        speedup for gamma 1, 2, ... at batch 1), ``checks`` (points of a grid with their
        ``tokens_per_pass`` and ``speedup``) and ``best_checks`` (``best_gamma`` and
        ``best_speedup``).
    """
    return {
        "settings": {"max_gamma": MAX_GAMMA, "token_time": TOKEN_TIME, "tie": TIE},
        "presets": [_with_dots(preset) for preset in PRESETS],
        "checks": [_check(*point) for point in product(_ALPHAS, _GAMMAS, _COSTS, _BATCHES)],
        "best_checks": [_best(*point) for point in product(_ALPHAS, _COSTS, _BATCHES)],
    }


def render_explorer(data: Mapping[str, Any] | None = None) -> str:
    """The page: plain script and SVG, nothing from outside.

    Args:
        data: Another page's worth of :func:`explorer_data`, for tests.

    Returns:
        The document, ending in a newline.

    Raises:
        MissingDependencyError: If jinja2 is not installed.
    """
    content = explorer_data() if data is None else data
    # A closing tag inside a string must not end the element that holds it.
    text = json.dumps(content, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return filled(
        "explorer.html.j2",
        css=trusted(asset("base.css") + asset("explorer.css")),
        script=trusted(asset("explorer.js")),
        data=trusted(text),
        settings=content["settings"],
        presets=content["presets"],
    )


def _at(alpha: float, gamma: int, c: float, batch: int) -> Prediction:
    found = predict(
        Setting(
            alpha=alpha, gamma=gamma, c=c, timing="roofline", batch=batch, token_time=TOKEN_TIME
        )
    )
    assert found is not None, "a constant alpha has a closed form"
    return found


def _with_dots(preset: Preset) -> dict[str, Any]:
    points = [_at(preset.alpha, gamma, preset.c, 1) for gamma in range(1, MAX_GAMMA + 1)]
    dots = [
        {"gamma": gamma, "tokens_per_pass": point.tokens_per_pass, "speedup": point.speedup}
        for gamma, point in enumerate(points, start=1)
    ]
    return {"name": preset.name, "alpha": preset.alpha, "c": preset.c, "dots": dots}


def _check(alpha: float, gamma: int, c: float, batch: int) -> dict[str, float]:
    point = _at(alpha, gamma, c, batch)
    return {
        "alpha": alpha,
        "gamma": gamma,
        "c": c,
        "batch": batch,
        "tokens_per_pass": point.tokens_per_pass,
        "speedup": point.speedup,
    }


def _best(alpha: float, c: float, batch: int) -> dict[str, float]:
    speedups = [_at(alpha, gamma, c, batch).speedup for gamma in range(1, MAX_GAMMA + 1)]
    top = max(speedups)
    best = next(i for i, speedup in enumerate(speedups) if speedup >= top * (1 - TIE))
    return {
        "alpha": alpha,
        "c": c,
        "batch": batch,
        "best_gamma": best + 1,
        "best_speedup": speedups[best],
    }
