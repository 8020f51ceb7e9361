"""What a plan asks of its scenarios."""

from __future__ import annotations

from specverify.audit.config import AuditConfig
from specverify.audit.forms import Form
from specverify.audit.planning import COARSE_TV, make_plan
from specverify.audit.suites import suite


def test_a_strict_audit_holds_coarse_scenarios_to_the_same_bound() -> None:
    scenarios = suite(Form.VERIFY, "default")
    coarse = {scenario.name for scenario in scenarios if scenario.coarse}
    lax = make_plan(scenarios, AuditConfig(tv=0.01), 0)
    strict = make_plan(scenarios, AuditConfig(tv=0.01, strict=True), 0)
    assert coarse
    assert {name for name, tv in lax.tv.items() if tv == COARSE_TV} == coarse
    assert set(strict.tv.values()) == {0.01}
    longer = {name for name, looks in strict.looks.items() if looks[-1] > lax.looks[name][-1]}
    assert coarse - longer == {"one-hot"}  # one cell: nothing is left to bound
    assert longer <= coarse
