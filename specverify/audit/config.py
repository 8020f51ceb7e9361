"""What an audit is asked to do: one frozen value, checked when it is made."""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from specverify.audit.forms import Form, Framework
from specverify.errors import InvalidInputError

__all__ = ["EXPECTED", "MODES", "AuditConfig", "Budget"]

MODES = ("auto", "exact", "statistical")
"""Ways to look at a law."""

EXPECTED = ("standard", "match", "block")
"""Schemes that an audit may be told to expect."""

_BUDGET = re.compile(r"(?P<number>\d+(\.\d+)?)(?P<unit>s|m|k|M)?")
_SECONDS = {"s": 1.0, "m": 60.0}
_CALLS = {None: 1, "k": 1_000, "M": 1_000_000}


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The most that an audit may spend; whichever limit comes first ends the sampling.

    Attributes:
        seconds: Wall-clock seconds of sampling.
        calls: Calls of the implementation.
    """

    seconds: float | None = None
    calls: int | None = None

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Read ``60s``, ``2m`` (time) or ``200k``, ``1M``, ``5000`` (calls).

        Raises:
            InvalidInputError: If the text is none of these, or zero.
        """
        match = _BUDGET.fullmatch(text.strip())
        number = float(match["number"]) if match else 0.0
        if match is None or number <= 0:
            raise InvalidInputError("budget", f"must look like 60s, 2m, 200k or 5000, got {text!r}")
        if match["unit"] in _SECONDS:
            return cls(seconds=number * _SECONDS[match["unit"]])
        return cls(calls=math.ceil(number * _CALLS[match["unit"]]))


@dataclass(frozen=True, kw_only=True)
class AuditConfig:
    """Settings of one audit.

    Attributes:
        form: How the implementation is called; found from its signature when None.
        framework: Arrays that it takes; found from its annotations when None.
        mode: ``exact`` traces laws and samples only what confirms them; ``statistical`` samples;
            ``auto`` traces what it can and samples the rest.
        budget: Limits of the sampling; None samples until the verdict is in (with a ceiling).
        tv: Largest total variation that a pass may leave open, at 95 % confidence over the audit.
        strict: Whether coarse scenarios (edge cases, large vocabularies, slow engines), where 0.05
            is enough otherwise, are held to ``tv`` as well.
        false_alarm: Probability that a correct implementation fails the law, over the whole audit.
        power: Power that every detectable distance refers to.
        tolerance: Total variation by which the laws that tokens are compared with may themselves
            be off: 0 for functions, some 5e-3 for an engine whose logits are bfloat16.
        declare: ``lossless``, or ``lossy:X`` with the declared total variation X.
        expect: ``lossless`` (a slower scheme is a finding), or the scheme of which a deviation
            fails: ``standard``, ``match`` (sample-and-match) or ``block`` (block verification).
        gammas: Block sizes to keep of the scenarios' own; None keeps all.
        checks: Shell patterns of the checks to run, e.g. ``token[*]``; empty runs all.
        expected_failures: Reasons by shell pattern of a check's name.
        scenarios: ``default`` or ``thorough``.
        workers: Worker processes; results do not depend on it.
        isolation: ``process`` (crashes and hangs are survived), ``inline``, or ``auto``:
            process for a target that is named, inline for a callable that is passed.
        time_limit: Seconds that one call may take.
        memory_limit: Bytes that a worker may allocate beyond what it has after loading.
    """

    form: Form | None = None
    framework: Framework | None = None
    mode: str = "auto"
    budget: Budget | None = None
    tv: float = 0.02
    strict: bool = False
    false_alarm: float = 1e-6
    power: float = 0.9
    tolerance: float = 0.0
    declare: str = "lossless"
    expect: str = "lossless"
    gammas: tuple[int, ...] | None = None
    checks: tuple[str, ...] = ()
    expected_failures: Mapping[str, str] = field(default_factory=dict)
    scenarios: str = "default"
    workers: int = 2
    isolation: str = "auto"
    time_limit: float = 10.0
    memory_limit: int | None = None

    def __post_init__(self) -> None:
        _member(self, "form", Form)
        _member(self, "framework", Framework)
        for name in ("tv", "false_alarm", "power"):
            _between(name, getattr(self, name))
        if not 0 <= self.tolerance < 1:
            raise InvalidInputError("tolerance", f"must lie in [0, 1), got {self.tolerance}")
        _one_of("mode", self.mode, MODES)
        _one_of("expect", self.expect, ("lossless", *EXPECTED))
        _one_of("scenarios", self.scenarios, ("default", "thorough"))
        _one_of("isolation", self.isolation, ("auto", "process", "inline"))
        if self.workers < 1:
            raise InvalidInputError("workers", f"must be at least 1, got {self.workers}")
        if not self.time_limit > 0:
            raise InvalidInputError("time_limit", f"must be positive, got {self.time_limit}")
        if self.memory_limit is not None and self.memory_limit < 1:
            raise InvalidInputError("memory_limit", f"must be positive, got {self.memory_limit}")
        for gamma in self.gammas or ():
            if gamma < 1:
                raise InvalidInputError("gammas", f"must be at least 1, got {gamma}")
        _ = self.declared_tv

    @property
    def declared_tv(self) -> float | None:
        """The declared total variation; None where losslessness is declared."""
        if self.declare == "lossless":
            return None
        kind, _, amount = self.declare.partition(":")
        try:
            value = float(amount) if kind == "lossy" else math.nan
        except ValueError:
            value = math.nan
        if not 0 < value < 1:
            raise InvalidInputError(
                "declare", f"must be lossless or lossy:X with 0 < X < 1, got {self.declare!r}"
            )
        return value

    def wants(self, check: str) -> bool:
        """Whether a check of this name is asked for."""
        return not self.checks or any(matches(check, pattern) for pattern in self.checks)

    def expected_failure(self, check: str) -> str | None:
        """Reason why this check is expected to fail, if it is."""
        for pattern, reason in self.expected_failures.items():
            if matches(check, pattern):
                return reason
        return None


def matches(check: str, pattern: str) -> bool:
    """Whether a name such as ``token[zipf]`` is ``pattern``: whole, its family, or a glob."""
    # fnmatch reads [...] as a set of characters; in a check's name brackets are plain text.
    literal = pattern.replace("[", "[[]")
    return check.partition("[")[0] == pattern or fnmatch.fnmatchcase(check, literal)


def _member(config: AuditConfig, name: str, kind: type[Form] | type[Framework]) -> None:
    """Let a member be given by its value: ``"numpy"`` for ``Framework.NUMPY``."""
    value = getattr(config, name)
    if value is None:
        return
    _one_of(name, value, tuple(str(member) for member in kind))
    object.__setattr__(config, name, kind(value))


def _between(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise InvalidInputError(name, f"must lie in (0, 1), got {value}")


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InvalidInputError(name, f"must be one of {', '.join(allowed)}; got {value!r}")
