"""The explorer's numbers, computed when the page is made."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from specverify.report.explorer import MAX_GAMMA, PRESETS, explorer_data, render_explorer
from specverify.simulate.demonstrate import demonstrate_speculative
from specverify.theory.optimal_gamma import optimal_gamma


def test_dots_are_those_of_the_demonstration() -> None:
    for preset, content in zip(PRESETS, explorer_data()["presets"], strict=True):
        curve = demonstrate_speculative(
            np.random.default_rng(0),
            alphas=(preset.alpha,),
            c=preset.c,
            max_gamma=MAX_GAMMA,
            rounds=2000,
        )
        dots = content["dots"]
        assert [dot["gamma"] for dot in dots] == curve.gammas.tolist()
        tokens = [dot["tokens_per_pass"] for dot in dots]
        speedups = [dot["speedup"] for dot in dots]
        np.testing.assert_allclose(tokens, curve.tokens_per_pass[0], rtol=1e-12)
        np.testing.assert_allclose(speedups, curve.speedup[0], rtol=1e-12)


def test_the_presets_are_what_they_are_called() -> None:
    by_name = {preset["name"]: preset for preset in explorer_data()["presets"]}
    assert {preset["c"] for preset in by_name.values()} >= {0.1}
    best = {n: max(dot["speedup"] for dot in p["dots"]) for n, p in by_name.items()}
    assert by_name["good draft"]["alpha"] == 0.9
    assert best["good draft"] > 3
    assert by_name["weak draft"]["alpha"] == 0.4
    assert best["weak draft"] == pytest.approx(1.3)


def test_the_best_gamma_is_the_theory_s_where_the_batch_is_small() -> None:
    alone = [check for check in explorer_data()["best_checks"] if check["batch"] == 1]
    # At no cost and alpha below one, gain falls below rounding before it ends.
    compared = [check for check in alone if check["c"] > 0 or check["alpha"] in (0, 1)]
    assert len(compared) > 20
    for check in compared:
        best = optimal_gamma(check["alpha"], check["c"], max_gamma=MAX_GAMMA)
        assert check["best_gamma"] == best, check


def test_the_page_stands_alone() -> None:
    page = render_explorer()
    assert page == render_explorer()
    assert re.findall(r"""(?:src|href)\s*=\s*["'](?!#)""", page) == []
    addresses = set(re.findall(r"https?://[^\"'\s)]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not a place
    assert "fetch(" not in page
    assert "XMLHttpRequest" not in page
    assert "default-src 'none'" in page


def test_the_page_holds_its_data_whatever_is_in_it() -> None:
    data = explorer_data()
    data["presets"][0]["name"] = "</script><b>"
    page = render_explorer(data)
    text = re.search(r'id="data">(.*?)</script>', page, flags=re.DOTALL)
    assert text is not None
    assert json.loads(text[1])["presets"][0]["name"] == "</script><b>"
    assert "<b>" not in page
