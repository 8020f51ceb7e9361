"""Settings told by names: every process, timing and bonus rule against its closed form."""

from __future__ import annotations

import numpy as np
import pytest

from specverify.errors import InvalidInputError
from specverify.simulate.predictions import length_pmf, predict
from specverify.simulate.setting import Setting
from specverify.simulate.simulation import setting_row, simulate_setting
from specverify.simulate.sweeps import grid, point_generator, run_sweep
from specverify.theory.emitted_length import emitted_length_pmf
from specverify.theory.expected_tokens import expected_accepted_tokens
from specverify.theory.speedup import speculative_speedup

POINTS = grid(
    {
        "process": ["constant", "beta", "beta-token", "markov"],
        "timing": ["constant", "gamma", "lognormal", "roofline"],
        "gamma": [2, 3, 6],
        "bonus": [True, False],
        "c": [0.05, 0.3],
        "alpha": [0.7],
        "spread": [0.2],
        "batch": [30],
        "verify_slope": [0.1],
        "stop": ["rounds"],
        "length": [60],
        "runs": [200],
    }
)


def test_every_process_and_timing_agrees_with_its_closed_form() -> None:
    """192 settings, two distances each: below 6.1 standard errors, 1e-6 in all, two-sided."""
    rows = run_sweep(setting_row, POINTS, seed=8)
    names = ("tokens_per_pass", "speedup")
    far = np.array(
        [
            [(row[n] - row[f"predicted_{n}"]) / row[f"{n}_standard_error"] for n in names]
            for row in rows
        ]
    )
    assert far.shape == (192, 2)
    assert np.abs(far).max() < 6.1
    assert far.std(axis=0) == pytest.approx([1, 1], abs=0.25)
    # The negative control: the formula of a constant alpha misses text that varies by rounds.
    varied = [row for row in rows if row["process"] in ("beta", "markov") and row["gamma"] == 6]
    for row in varied:
        constant = expected_accepted_tokens(0.7, 6, bonus=row["bonus"])
        off = (row["tokens_per_pass"] - constant) / row["tokens_per_pass_standard_error"]
        assert off > 6.1


def test_predictions_by_hand() -> None:
    found = predict(Setting(alpha=0.8, gamma=4, c=0.1, verify_slope=0.05))
    assert found.tokens_per_pass == pytest.approx(expected_accepted_tokens(0.8, 4))
    assert found.speedup == pytest.approx(speculative_speedup(0.8, 4, 0.1, verify_cost=1.2))
    roof = predict(Setting(gamma=4, timing="roofline", batch=40, token_time=0.01))
    assert roof.speedup == pytest.approx(speculative_speedup(0.8, 4, 0.1, verify_cost=2.0))
    for other in ({"policy": "schedule"}, {"overlap": True}):
        assert predict(Setting.of(other)) is None


def test_the_law_of_stretches_is_the_mixture_of_its_states() -> None:
    process = Setting(process="markov", alpha=0.6, spread=0.3, stay=0.8).acceptance_process()
    mixture = (emitted_length_pmf(0.9, 3) + emitted_length_pmf(0.3, 3)) / 2
    np.testing.assert_allclose(length_pmf(process, 3), mixture, atol=1e-15)


def test_policies_by_name() -> None:
    """The optimal rule knows each token's chance, and beats what does not."""
    common = {"process": "beta-token", "concentration": 1.0, "runs": 400, "stop": "rounds"}
    points = [
        {**common, "policy": "fixed", "gamma": 5},
        {**common, "policy": "schedule", "gamma": 5},
        {**common, "policy": "threshold", "threshold": 0.4},
        {**common, "policy": "optimal"},
    ]
    fixed, schedule, threshold, best = run_sweep(setting_row, points, seed=2)
    assert best["speedup_low"] > max(row["speedup_high"] for row in (fixed, schedule))
    assert best["speedup"] > threshold["speedup"] - 3 * threshold["speedup_standard_error"]
    assert fixed["drafted_per_pass"] == 5
    assert 1 < threshold["drafted_per_pass"] < 20  # stops before its longest draft


def test_stops_and_prefill_by_name() -> None:
    rng = np.random.default_rng(1)
    ended = simulate_setting(Setting(stop="eos", hazard=0.5, length=3, runs=500), rng)
    assert ended.delivered.max() == 3
    assert ended.delivered.min() == 1
    plain = simulate_setting(Setting(alpha=1.0, runs=2), rng)
    late = simulate_setting(Setting(alpha=1.0, runs=2, prefill=3.0, draft_prefill=0.5), rng)
    np.testing.assert_allclose(late.speculative_time - plain.speculative_time, 3.5)


def test_a_single_run_has_no_standard_error() -> None:
    row = setting_row({"runs": 1}, point_generator(0, 0))
    assert row["speedup_standard_error"] is row["speedup_low"] is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"colour": 1}, "colour: is no parameter"),
        ({"process": "odd"}, "process: must be one of constant, beta, beta-token, markov"),
        ({"alpha": (0.5, 0.6), "process": "beta"}, "alpha: must be one number for beta"),
        ({"process": "markov", "alpha": 0.95}, r"spread: must lie in \[0, 1\]"),
        ({"policy": "optimal", "timing": "roofline"}, "policy: optimal needs"),
        ({"c": -1.0}, "c: must be finite and at least 0"),
        ({"verify_slope": -1.0}, "verify_slope: must be finite and at least 0"),
        ({"alpha": (0.5, 0.6), "gamma": 3}, "alphas: has 2 positions, but 3 may be drafted"),
    ],
)
def test_bad_settings_are_named(values, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        setting_row(values, point_generator(0, 0))
