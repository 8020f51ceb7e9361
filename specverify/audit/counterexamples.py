"""The smallest case on which a traced implementation deviates, for ``case`` of a failed check.

======================================= ========================================================
``kind``                                ``"counterexample"`` (drawn and shrunk), or ``"scenario"``
                                        where no smaller case was found
``scenario``                            scenario on which the deviation was seen first
``form``, ``framework``, ``dtype``      of the verifier, and of the arrays handed to it
``target_weights``, ``draft_weights``   whole weights of the rows (counterexamples); of a loop, a
                                        row for each token before
``gamma``, ``max_new_tokens``           what a loop was asked for
``target_probs``, ``draft_probs``       the rows, ``(gamma + 1, vocab)`` and ``(gamma, vocab)``,
                                        where they depend on the position alone
``tv``, ``position``                    what was found on a counterexample; enumerating the rows
                                        again gives it again (the check has those of a scenario)
``snippet``                             Python that shows it, where there are rows
======================================= ========================================================
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, cast

from specverify.audit.exact_record import GATE
from specverify.audit.exactly import first_rows
from specverify.audit.forms import Form
from specverify.audit.observer import Observer
from specverify.audit.scenarios import Scenario
from specverify.audit.tally import Tally
from specverify.audit.targets import Target
from specverify.audit.tracing import handed_dtype, watched, watched_loop
from specverify.errors import SpecVerifyError
from specverify.exact.calling import Framework, VerifyForm
from specverify.exact.loop_search import find_loop_counterexample
from specverify.exact.search import find_counterexample, snippet_of

__all__ = ["scenario_case", "search_tally", "smallest_case"]

_MAX_VOCAB, _MAX_GAMMA, _EXAMPLES, _CASES, _PATHS = 3, 2, 48, 150, 2_000
_ROWS_SHOWN = 8


def search_tally(target: Target, scenario: Scenario, observer: Observer) -> Tally:
    """A tally that holds the smallest case found, or the scenario itself."""
    tally = Tally()
    case = smallest_case(target, scenario, observer) or scenario_case(target, scenario)
    tally.note("counterexample", case)
    return tally


def smallest_case(target: Target, scenario: Scenario, observer: Observer) -> dict[str, Any] | None:
    """Search for a case of few tokens and drafts; bounded, and the same every time.

    Args:
        target: A block verifier, one block at a time or batched (in batches of one), or a loop.
        scenario: Where a deviation was seen.
        observer: Told of every call.

    Returns:
        The case, or None where none was found.
    """
    if scenario.form is Form.DECODE:
        return _smallest_loop(target, scenario, observer)
    try:
        found = find_counterexample(
            watched(target, observer),
            **_call(target),
            max_vocab=_MAX_VOCAB,
            max_gamma=_MAX_GAMMA,
            tolerance=GATE,
            max_examples=_EXAMPLES,
            max_cases=_CASES,
            max_paths=_PATHS,
            binding=_binding(target),
        )
    except SpecVerifyError:  # Hypothesis is missing, or some small case cannot be traced
        return None
    if found is None:
        return None
    return _call(target) | {
        "kind": "counterexample",
        "scenario": scenario.name,
        "target_weights": [list(row) for row in found.target_weights],
        "draft_weights": [list(row) for row in found.draft_weights],
        "target_probs": found.target_probs.tolist(),
        "draft_probs": found.draft_probs.tolist(),
        "tv": found.tv,
        "position": found.position,
        "snippet": found.snippet,
    }


def _smallest_loop(target: Target, scenario: Scenario, observer: Observer) -> dict[str, Any] | None:
    call = _call(target)
    try:
        found = find_loop_counterexample(
            watched_loop(target, observer),
            binding=_binding(target, "decode"),
            framework=call["framework"],
            dtype=call["dtype"],
            tolerance=GATE,
            max_examples=_EXAMPLES,
            max_cases=_CASES,
            max_paths=_PATHS,
        )
    except SpecVerifyError:
        return None
    if found is None:
        return None
    case = {"kind": "counterexample", "scenario": scenario.name} | asdict(found)
    return call | {key: _listed(value) for key, value in case.items()}


def _listed(value: Any) -> Any:
    """Weights as lists, as JSON gives them back."""
    return [list(row) for row in value] if isinstance(value, tuple) else value


def scenario_case(target: Target, scenario: Scenario) -> dict[str, Any]:
    """The scenario itself as a case."""
    case: dict[str, Any] = _call(target) | {"kind": "scenario", "scenario": scenario.name}
    blocks = scenario.form is not Form.DECODE and scenario.chain.contexts == 1
    if blocks and scenario.vocab_size <= _ROWS_SHOWN:
        target_rows, draft_rows = first_rows(scenario.chain, scenario.gamma)
        rows = target_rows.tolist(), draft_rows.tolist()
        case |= {"target_probs": rows[0], "draft_probs": rows[1]}
        case["snippet"] = snippet_of(rows, "verify", **_call(target), binding=_binding(target))
    return case


def _call(target: Target) -> dict[str, Any]:
    return {
        "form": cast("VerifyForm", str(target.form)),
        "framework": cast("Framework", str(target.framework)),
        "dtype": handed_dtype(target),
    }


def _binding(target: Target, called: str = "verify") -> str:
    """A statement after which ``called`` is the implementation."""
    if target.spec is None:
        function = target.implementation
        module, name = function.__module__, getattr(function, "__qualname__", "")
        if name.isidentifier():
            return f"from {module} import {name} as {called}"
        return f"{called} = ...  # {target.name}, as it was handed over"
    where, _, name = target.spec.rpartition(":")
    if where and not where.endswith(".py") and name.isidentifier():
        return f"from {where} import {name} as {called}"
    return (
        "from specverify.audit.forms import Form\n"
        "from specverify.audit.targets import resolve\n"
        f"{called} = resolve({target.spec!r}, form=Form.{target.form.name}).implementation"
    )
