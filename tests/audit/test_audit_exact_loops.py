"""A loop that fails exactly: the known bug that it is, and its smallest case."""

from __future__ import annotations

import pytest
from exact_for_tests import exact_audit, exact_checks

from specverify.bugs import ZOO
from specverify.results import Verdict
from specverify.sampler.decode import speculative_decode

CHECKS = ("exact[smallest]", "exact[order-2]")


def test_a_lost_first_token_is_named_with_its_smallest_case() -> None:
    result = exact_audit(ZOO["first_token_lost"].callable, form="decode", checks=CHECKS)
    checks = exact_checks(result)
    assert {check.verdict for check in checks.values()} == {Verdict.FAIL}
    for check in checks.values():
        assert check.diagnosis.consistent_with == "first_token_lost"
        assert (check.diagnosis.stage, check.diagnosis.position) == ("stopping", 0)
        assert "the first new token conditions the others" in check.diagnosis.text
    (case,) = [check.case for check in checks.values() if check.case is not None]
    assert case["kind"] == "counterexample"
    assert (case["gamma"], case["max_new_tokens"], case["position"]) == (1, 1, 0)
    snippet = case["snippet"].replace("decode = ...", "decode = implementation")
    with pytest.raises(AssertionError, match="TvBounds"):
        exec(snippet, {"implementation": ZOO["first_token_lost"].callable})


def test_a_right_loop_is_proved() -> None:
    checks = exact_checks(exact_audit(speculative_decode, form="decode", checks=CHECKS))
    assert {check.verdict for check in checks.values()} == {Verdict.PASS}
