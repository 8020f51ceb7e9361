"""The exact way: laws enumerated on every case, with the doubts that end it spelled out."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

from specverify._arrays import FloatArray
from specverify.audit.batches import as_traced_verifier
from specverify.audit.config import Budget
from specverify.audit.targets import Target
from specverify.exact.blocks import ExactCheck, check_exact
from specverify.exact.calling import Framework, VerifyForm
from specverify.exact.decoding import check_exact_decode
from specverify.testing.cases import BlockCase, DecodeCase, block_cases, decode_cases
from specverify.testing.confirm import block_trial, confirm_exceptions, decode_trial
from specverify.testing.options import EXACT_GAMMAS, Options

__all__ = ["CaseResult", "Enumeration", "Purse", "enumerate_cases", "positional"]

_DTYPES = ("float64", "float32")
# Cases of a batch of two.
_COMPANY, _COMPANY_GAMMAS = ("plain", "zeros in draft", "rows by context"), (1,)
_NO_CHANCE = 1e-9


@dataclass(frozen=True, kw_only=True)
class CaseResult:
    """One enumerated case.

    Attributes:
        name: Name of the case.
        rows: Target and draft rows where they depend on the position alone, else None.
        check: The exact verdict, with the law that was found.
        loop: What a decoder was asked for; None for blocks.
    """

    name: str
    rows: tuple[FloatArray, FloatArray] | None
    check: ExactCheck
    loop: DecodeCase | None = None


@dataclass(frozen=True, kw_only=True)
class Enumeration:
    """Every case of one implementation.

    Attributes:
        results: The cases.
        dtype: Floating dtype of the rows that were handed over.
    """

    results: tuple[CaseResult, ...]
    dtype: str

    @property
    def tv(self) -> float:
        """Largest upper bound of the total variation distance over the cases."""
        return max(result.check.tv.high for result in self.results)

    @property
    def failed(self) -> list[CaseResult]:
        """Cases on which the law is proved to deviate."""
        return [result for result in self.results if result.check.lossless is False]

    @property
    def worst(self) -> CaseResult:
        """The case with the largest certified distance."""
        return max(self.results, key=lambda result: result.check.tv.low)

    @property
    def position(self) -> int | None:
        """First position at which the law surely deviates in any case, or None."""
        found = [r.check.position for r in self.results if r.check.position is not None]
        return min(found, default=None)

    @property
    def open(self) -> list[CaseResult]:
        """Cases that the budget left undecided."""
        return [result for result in self.results if result.check.lossless is None]


class Purse:
    """What is left of a budget: CPU seconds and paths.

    Args:
        budget: The limits.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._start = time.process_time()
        self._paths = 0

    def spend(self, paths: int) -> None:
        """Note paths that were explored."""
        self._paths += paths

    def limits(self) -> dict[str, Any]:
        """Options of the tracer that keep within what is left."""
        found: dict[str, Any] = {}
        if self._budget.seconds is not None:
            used = time.process_time() - self._start
            found["max_seconds"] = max(self._budget.seconds - used, 0.0)
        if self._budget.calls is not None:
            found["max_paths"] = max(self._budget.calls - self._paths, 0)
        return found

    @property
    def empty(self) -> bool:
        """Whether nothing is left."""
        return any(amount <= 0 for amount in self.limits().values())


def enumerate_cases(target: Target, options: Options, purse: Purse) -> Enumeration:
    """Enumerate the law on every case.

    Args:
        target: The implementation.
        options: Settings.
        purse: What may be spent.

    Raises:
        UnsupportedRandomness: If the code cannot be traced.
        ReplayDivergence: If it keeps state, or draws from a source that the tracer does not see.
    """
    if options.form == "decode":
        return Enumeration(results=tuple(_decodes(target, options, purse)), dtype="float64")
    for dtype in _DTYPES:
        results = []
        for case in block_cases(options.gammas or EXACT_GAMMAS):
            results.append(_block(target, options, (case, dtype), purse))
            if len(results) == 1 and dtype == "float64" and _refuses(results[0].check):
                break  # code written for float32 rows raises on the first case already
        else:
            break
    if options.form == "batched":
        results += _in_company(target, options, dtype, purse)
    return Enumeration(results=tuple(results), dtype=dtype)


def positional(target: Target) -> Callable[..., Any]:
    """The implementation with its generator in the last positional place, as the tracer hands it.

    Functions that take it there, or not at all, are returned as they are.
    """
    function = cast("Callable[..., Any]", target.implementation)
    name = target.generator
    if name in (None, "*"):
        return function
    kind = inspect.signature(function).parameters[str(name)].kind
    if kind is not inspect.Parameter.KEYWORD_ONLY:
        return function

    def call(*arguments: Any) -> Any:
        return function(*arguments[:-1], **{str(name): arguments[-1]})

    functools.update_wrapper(call, function)
    del call.__wrapped__  # type: ignore[attr-defined]  # its signature is another
    return call


def _block(
    target: Target, options: Options, cased: tuple[BlockCase, str], purse: Purse
) -> CaseResult:
    case, dtype = cased
    verify = positional(target)
    form = cast("VerifyForm", options.form)
    framework = cast("Framework", str(target.framework))
    check = check_exact(
        verify,
        case.scenario,
        form=form,
        framework=framework,
        dtype=dtype,
        tolerance=options.tolerance,
        **purse.limits(),
    )
    purse.spend(check.law.paths)
    if not (_refuses(check) and dtype == "float64"):
        confirm_exceptions(check, block_trial(target, case, form, dtype), target)
    return CaseResult(name=case.name, rows=case.rows, check=check)


def _in_company(target: Target, options: Options, dtype: str, purse: Purse) -> Iterator[CaseResult]:
    """A batch of two: what leaks from row to row shows in no batch of one.

    The other row multiplies the paths, so that blocks of one draft alone are looked at.
    """
    single = replace(options, form="verify")
    for place in (0, 1):
        pair = as_traced_verifier(target, place=place)
        for case in block_cases(_COMPANY_GAMMAS):
            if case.name.startswith(_COMPANY):
                beside = replace(case, name=f"{case.name} in row {place} of two")
                yield _block(pair, single, (beside, dtype), purse)


def _refuses(check: ExactCheck) -> bool:
    return check.law.exception_mass > 1 - _NO_CHANCE


def _decodes(target: Target, options: Options, purse: Purse) -> Iterator[CaseResult]:
    for case in decode_cases(options.gammas or EXACT_GAMMAS):
        check = check_exact_decode(
            positional(target),
            case.target,
            case.draft,
            prompt=case.prompt,
            gamma=case.gamma,
            max_new_tokens=case.max_new_tokens,
            tolerance=options.tolerance or 1e-12,
            framework=cast("Framework", str(target.framework)),
            **purse.limits(),
        )
        purse.spend(check.law.paths)
        confirm_exceptions(check, decode_trial(target, case), target)
        yield CaseResult(name=case.name, rows=None, check=check, loop=case)
