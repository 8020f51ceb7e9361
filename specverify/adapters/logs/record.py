"""One kind of record for what engines say about speculation, and the rates that follow from it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

__all__ = ["Rates", "SpeculationRecord", "count_tested", "rates"]


class SpeculationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of one log line, metric set or request; None is what the input cannot tell.

    Attributes:
        source: Format, e.g. ``vllm-log``.
        label: Where it stood: ``line 3``, the engine and model, the request.
        steps: Verifying passes, of one sequence each.
        gamma: Drafted tokens of a full step.
        drafted: Drafted tokens.
        accepted: Accepted draft tokens.
        rejected: Drafted tokens that were not accepted, where the engine counts them.
        emitted: Tokens of the completion, where the engine counts them.
        histogram: Steps that accepted 0, 1, ... tokens.
        step_accepted: Accepted tokens of each step.
        step_drafted: Drafted tokens of each step.
        marginal: By position, the share of steps that accepted it.
        mean_length: Tokens a step, as printed.
        rate: Accepted over drafted, as printed.
        efficiency: Emitted tokens over the most that could have been emitted, as printed.
        derived: Fields that were not printed but follow from others, with how.
        cannot_tell: What the format leaves open.
    """

    source: str
    label: str = ""
    steps: int | None = None
    gamma: float | None = None
    drafted: int | None = None
    accepted: int | None = None
    rejected: int | None = None
    emitted: int | None = None
    histogram: tuple[int, ...] | None = None
    step_accepted: tuple[int, ...] | None = None
    step_drafted: tuple[int, ...] | None = None
    marginal: tuple[float, ...] | None = None
    mean_length: float | None = None
    rate: float | None = None
    efficiency: float | None = None
    derived: dict[str, str] = {}
    cannot_tell: tuple[str, ...] = ()


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """What people call acceptance rate, each under its own name; None is unknown.

    Attributes:
        conditional: Accepted over *tested* tokens, those whose forerunners were all accepted: the
            alpha of the theory.
        conditional_by_position: The same by position.
        accepted_over_drafted: Accepted over drafted tokens; below alpha, for gamma above 1.
        marginal_by_position: Share of steps that accepted this position.
        alpha_if_constant: The alpha that would give the same accepted tokens a step if it were the
            same for every token.
        tokens_per_step: Accepted tokens a step, plus the correction or bonus token.
    """

    conditional: float | None = None
    conditional_by_position: tuple[float | None, ...] | None = None
    accepted_over_drafted: float | None = None
    marginal_by_position: tuple[float, ...] | None = None
    alpha_if_constant: float | None = None
    tokens_per_step: float | None = None


def rates(record: SpeculationRecord) -> Rates:
    """The rates that follow from a record, never from a broken or missing count."""
    marginal = _marginal(record)
    by_step, share = _tokens_per_step(record), _ratio(record.accepted, record.drafted)
    return Rates(
        conditional=_conditional(record, marginal),
        conditional_by_position=_by_position(marginal) if _full_drafts(record) else None,
        accepted_over_drafted=record.rate if share is None else share,
        marginal_by_position=marginal,
        alpha_if_constant=_constant_alpha(by_step, record.gamma),
        tokens_per_step=by_step,
    )


def count_tested(record: SpeculationRecord) -> int | None:
    """Draft tokens whose accept test was made: those behind a rejection are not."""
    if record.step_accepted is not None and record.step_drafted is not None:
        pairs = zip(record.step_accepted, record.step_drafted, strict=False)
        return sum(min(accepted + 1, drafted) for accepted, drafted in pairs)
    if record.histogram is None or not _full_drafts(record):
        return None
    longest = len(record.histogram) - 1
    return sum(n * min(j + 1, longest) for j, n in enumerate(record.histogram))


def _full_drafts(record: SpeculationRecord) -> bool:
    """Whether every step drafted ``gamma`` tokens: else a short draft looks like a rejection."""
    if None in (record.steps, record.gamma, record.drafted):
        return False
    return record.drafted == record.steps * record.gamma  # type: ignore[operator]


def _conditional(record: SpeculationRecord, marginal: tuple[float, ...] | None) -> float | None:
    tested = count_tested(record)
    if tested is not None:
        found = _ratio(record.accepted, tested)
    elif marginal is not None and _full_drafts(record):
        found = sum(marginal) / sum((1.0, *marginal[:-1]))
    else:
        return None
    return found if found is not None and 0 <= found <= 1 else None  # broken counts give no rate


def _marginal(record: SpeculationRecord) -> tuple[float, ...] | None:
    if record.marginal is not None or record.histogram is None or not record.steps:
        return record.marginal
    reached = [sum(record.histogram[j:]) for j in range(1, len(record.histogram))]
    return tuple(count / record.steps for count in reached)


def _by_position(marginal: Sequence[float] | None) -> tuple[float | None, ...] | None:
    if marginal is None:
        return None
    before = (1.0, *marginal[:-1])
    return tuple(_ratio(now, then) for now, then in zip(marginal, before, strict=True))


def _tokens_per_step(record: SpeculationRecord) -> float | None:
    share = _ratio(record.accepted, record.steps)
    return record.mean_length if share is None else 1 + share


def _constant_alpha(tokens: float | None, gamma: float | None) -> float | None:
    """Solve ``(1 - a^(gamma+1)) / (1 - a) = tokens`` for a."""
    if tokens is None or gamma is None or gamma != int(gamma):
        return None
    if not 1 <= tokens <= gamma + 1:
        return None
    from scipy.optimize import brentq

    from specverify.theory.expected_tokens import expected_accepted_tokens

    def excess(alpha: float) -> float:
        return expected_accepted_tokens(alpha, int(gamma)) - tokens

    return float(brentq(excess, 0.0, 1.0, xtol=1e-12))


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else above / below
