"""The studies of the statistics: they count what happens, and their comparisons can fail."""

from __future__ import annotations

import importlib
import json
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from specverify.stats.context import ContextBets

SIMULATIONS = Path(__file__).resolve().parents[2] / "simulations"


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SIMULATIONS))
    return importlib.import_module(name)


@pytest.fixture
def calibration(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load("calibration", monkeypatch)


@pytest.fixture
def power(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load("power", monkeypatch)


def pair(size: int = 40) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    target = rng.dirichlet(np.ones(size))
    return target, 0.5 * target + 0.5 * rng.dirichlet(np.ones(size))


def test_one_study_is_merged_into_the_report(calibration: ModuleType, tmp_path: Path) -> None:
    output = tmp_path / "some.json"
    output.write_text(json.dumps({"acceptance": [], "seconds": {"acceptance": 1.0}}))
    calibration.REPORT.main(["--quick", "--study", "distances", str(output)])
    content = json.loads(output.read_text())
    assert set(content["seconds"]) == {"acceptance", "distances"}
    assert (content["study"], content["quick"]) == ("calibration", True)
    assert {row["cells"] for row in content["distances"]} == {2, 16, 128}
    table = (tmp_path / "some.md").read_text()
    assert "python simulations/calibration.py --study distances" in table


def test_processes_change_no_result(calibration: ModuleType) -> None:
    rows = []
    for workers in (1, 2):
        seed = np.random.SeedSequence(5)
        rows.append(calibration.acceptance(calibration.Setting(True, workers, seed)))
    assert rows[0] == rows[1]


def test_weighed_alarms_agree_with_counted_ones(
    calibration: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At level .05 both are precise; they differ by less than five standard errors."""
    monkeypatch.setattr(calibration, "LEVELS", (0.05,))
    (target, draft), rng = pair(), np.random.default_rng(9)
    bets = ContextBets(target, draft, alternatives={"draft": draft})
    weighed = calibration._weighed_alarms(bets, 50, 150, rng)[:, 0]
    counted = calibration._context_audits(bets, target, 50, 1500, rng)
    share = np.mean(np.array(counted) >= math.log(20))
    error = math.hypot(weighed.std() / math.sqrt(150), math.sqrt(share / 1500))
    assert 0 < weighed.mean() < 0.05
    assert abs(weighed.mean() - share) < 5 * error


@pytest.mark.parametrize("right", [True, False])
def test_alarms_of_right_engines_are_rare_and_of_wrong_ones_not(
    calibration: ModuleType, right: bool
) -> None:
    """60 audits at 1e-3: one alarm of a right engine has a probability below .06."""
    (target, draft), rng = pair(), np.random.default_rng(8)
    law = target if right else draft
    bets = ContextBets(target, draft)
    one = calibration._context_audits(bets, law, 300, 60, rng)
    mixed = calibration._mixed_audits([(target, draft)] * 2, 100, 60, rng)
    alarms = sum(best >= math.log(1000) for best in one)
    assert alarms <= 2 if right else alarms >= 50
    assert sum(best >= math.log(1000) for best in mixed) <= 2


def test_the_pair_study_takes_its_contexts_from_what_the_target_wrote(
    calibration: ModuleType,
) -> None:
    contexts = calibration.pair_contexts(2, 3, np.random.default_rng(0))
    assert len(contexts) == 6
    for target, draft in contexts:
        assert target.sum() == pytest.approx(1.0) == draft.sum()
    # Both texts start alike, and then they differ.
    np.testing.assert_allclose(contexts[0][0], contexts[3][0])
    assert not np.allclose(contexts[1][0], contexts[4][0])


def test_calibration_says_where_a_figure_is_not_reached(calibration: ModuleType) -> None:
    def alarms(hits: int, level: float) -> dict[str, Any]:
        return calibration.rate(hits, 10_000, level=level, vocab=8, contexts="one")

    rows = [alarms(4, 1e-3), alarms(5, 1e-3), alarms(1, 1e-4), alarms(2, 1e-4)]
    found = calibration.asked({"watched_contexts": rows})
    assert [holds for _, _, holds in found] == [True, False, True, False]
    covered = [calibration.rate(hits, 1000, what="coverage, clustered") for hits in (950, 930)]
    found = calibration.asked({"acceptance": covered})
    assert [holds for _, _, holds in found] == [True, False]


def test_power_says_where_a_figure_is_not_reached(power: ModuleType) -> None:
    def row(zoo: int, left_out: int) -> dict[str, Any]:
        oracle, found = power.median([100] * 9), power.median([zoo] * 9)
        rest = {"left out": power.median([left_out] * 9), "fixed n": 300}
        return {"bug": "x", "oracle": oracle, "zoo": found, "zoo over oracle": zoo / 100} | rest

    found = power.asked({"structural": [row(170, 300), row(171, 301)], "rounded": []})
    assert [holds for _, _, holds in found] == [True, False, True, False]
    late = {"traced": [{"bug": "y", "rounds": power.median([61] * 9)}]}
    assert [holds for _, _, holds in power.asked(late | {"rounded": []})] == [False]
    assert "not measured" in power.asked({})[0][1]


def test_a_reused_uniform_draws_what_its_law_says(power: ModuleType) -> None:
    """Counts of the coupled engine against the zoo's closed form, level 1e-6, fixed seed."""
    from specverify.bugs.registry import ZOO
    from specverify.stats.goodness import pooled_chi_square

    target, draft = pair(6)
    *stages, shared = *power.stages(target, draft)[power.REUSED], True
    tables, rng = np.zeros((3, 6), dtype=np.int64), np.random.default_rng(1)
    for _ in range(20_000):
        power.one_round(tables, (*stages, shared), rng)
    emitted = tables[0] + tables[2]
    row_law = ZOO["reused_uniform"].row_law
    assert row_law is not None
    assert pooled_chi_square(emitted, row_law(target, draft)).p_value > 1e-6
    assert pooled_chi_square(emitted, target).p_value < 1e-6
