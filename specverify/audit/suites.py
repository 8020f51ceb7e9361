"""Which scenarios each form is run in, and where to find one by name."""

from __future__ import annotations

from typing import TypeAlias

from specverify.audit.engines import SMALLEST, EngineScenario, engine_scenarios
from specverify.audit.forms import Form
from specverify.audit.scenarios import Scenario, find, scenarios
from specverify.errors import InvalidInputError

__all__ = ["AnyScenario", "find_scenario", "suite"]

AnyScenario: TypeAlias = Scenario | EngineScenario


def suite(form: Form, name: str) -> tuple[AnyScenario, ...]:
    """The scenarios of a form.

    Args:
        form: How the implementation is called.
        name: ``default`` or ``thorough``.
    """
    return engine_scenarios(name) if form is Form.GENERATE else scenarios(form, name)


def find_scenario(form: Form, name: str) -> AnyScenario:
    """The scenario of this name.

    Raises:
        InvalidInputError: If there is none.
    """
    if form is not Form.GENERATE:
        return find(form, name)
    known = {scenario.name: scenario for scenario in (SMALLEST, *engine_scenarios("thorough"))}
    if name.startswith("recorded-"):
        return EngineScenario(name=name, purpose="completions on record")
    if name not in known:
        raise InvalidInputError("scenario", f"{name!r} is none of {', '.join(known)}")
    return known[name]
