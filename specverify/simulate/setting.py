"""One simulation told by plain numbers and names, as a command line or a grid writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from specverify.errors import InvalidInputError
from specverify.simulate.acceptance import (
    AcceptanceProcess,
    BetaAcceptance,
    ConstantAcceptance,
    PositionAcceptance,
    TraceAcceptance,
)
from specverify.simulate.markov import MarkovAcceptance
from specverify.simulate.policies import FixedGamma, GammaPolicy, ScheduledGamma, ThresholdGamma
from specverify.simulate.stopping import AtEos, AtRounds, AtTokens, StopRule
from specverify.simulate.timing import ConstantTiming, JitterTiming, RooflineTiming, TimingModel
from specverify.theory.validation import checked_cost, checked_probability

__all__ = ["PolicyName", "ProcessName", "Setting", "StopName", "TimingName"]

ProcessName = Literal["constant", "beta", "beta-token", "markov", "trace"]
PolicyName = Literal["fixed", "schedule", "threshold", "optimal"]
TimingName = Literal["constant", "gamma", "lognormal", "roofline"]
StopName = Literal["tokens", "rounds", "eos"]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is simulated. Times are in units of one plain step of the target at batch 1.

    Attributes:
        alpha: Acceptance rate; several: by position in the block (``constant`` only).
        process: ``constant``; ``beta``: each round its own alpha; ``beta-token``: each token its
            own; ``markov``: easy and hard stretches; ``trace``: recorded rounds, in their order.
        concentration: ``a + b`` of the Beta laws; the larger, the more alike.
        spread: Distance of the easy and the hard alpha from ``alpha`` (``markov``).
        stay: Probability that the next round is as easy as this one (``markov``).
        trace: Accepted tokens of each recorded round of ``gamma`` drafts (``trace``).
        policy: ``fixed``; ``schedule``: two more after a full accept, one fewer after a rejection;
            ``threshold``: stop at the first token less likely than ``threshold``; ``optimal``:
            stop where the next token does not pay.
        gamma: Drafted tokens of a round; of the first round (``schedule``).
        threshold: Least chance of acceptance to go on (``threshold``).
        max_gamma: Longest draft of the policies that vary it.
        c: Cost of a draft step over that of a target step.
        timing: ``constant``; ``gamma`` or ``lognormal`` jitter; ``roofline``.
        variation: Standard deviation over mean of a single time (jitter).
        verify_slope: What each drafted token adds to the cost of the target's pass
            (``constant`` and jitter).
        batch: Sequences decoded together (``roofline``).
        token_time: Arithmetic of one token over the reading of the weights (``roofline``).
        prefill: Time of the target's pass over the prompt.
        draft_prefill: Time of the draft's pass over the prompt.
        overlap: Draft the next block while this one is verified.
        bonus: Whether a fully accepted block earns one more token.
        stop: After ``length`` ``tokens`` or ``rounds``, or at ``eos``, at most ``length`` tokens.
        length: Tokens or rounds of a run.
        hazard: Probability that a token ends the text (``eos``).
        runs: Independent runs.
    """

    alpha: float | tuple[float, ...] = 0.8
    process: ProcessName = "constant"
    concentration: float = 5.0
    spread: float = 0.15
    stay: float = 0.9
    trace: tuple[int, ...] = ()
    policy: PolicyName = "fixed"
    gamma: int = 4
    threshold: float = 0.4
    max_gamma: int = 20
    c: float = 0.1
    timing: TimingName = "constant"
    variation: float = 0.2
    verify_slope: float = 0.0
    batch: int = 1
    token_time: float = 0.01
    prefill: float = 0.0
    draft_prefill: float = 0.0
    overlap: bool = False
    bonus: bool = True
    stop: StopName = "tokens"
    length: int = 100
    hazard: float = 0.01
    runs: int = 1000

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise InvalidInputError(
                    name, f"must be one of {', '.join(choices)}; got {getattr(self, name)!r}"
                )
        if not isinstance(self.alpha, int | float):
            object.__setattr__(self, "alpha", tuple(self.alpha))
            if self.process != "constant":
                raise InvalidInputError("alpha", f"must be one number for {self.process}")
        object.__setattr__(self, "trace", tuple(self.trace))
        checked_cost("c", self.c)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Setting:
        """A setting from names and values, the rest by default.

        Raises:
            InvalidInputError: If a name is none of the attributes.
        """
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                raise InvalidInputError(name, f"is no parameter; there are {', '.join(known)}")
        return cls(**values)

    def record(self) -> dict[str, Any]:
        """Every attribute as a JSON value."""
        values = asdict(self)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    def acceptance_process(self) -> AcceptanceProcess:
        """How likely draft tokens are accepted."""
        if isinstance(self.alpha, tuple):
            return PositionAcceptance(self.alpha)
        if self.process == "trace":
            return TraceAcceptance.of_counts(self.trace, self.gamma)
        if self.process == "constant":
            return ConstantAcceptance(self.alpha)
        if self.process == "markov":
            alphas = [self.alpha + self.spread, self.alpha - self.spread]
            checked_probability("spread", alphas)
            move = 1 - self.stay
            return MarkovAcceptance(alphas, [[self.stay, move], [move, self.stay]])
        per_token = self.process == "beta-token"
        return BetaAcceptance(self.alpha, self.concentration, per_token=per_token)

    def gamma_policy(self) -> GammaPolicy | None:
        """How many are drafted; None where that has to be tuned first (``optimal``)."""
        if self.policy == "fixed":
            return FixedGamma(self.gamma)
        if self.policy == "schedule":
            return ScheduledGamma(initial=self.gamma, max_gamma=self.max_gamma)
        if self.policy == "threshold":
            return ThresholdGamma(self.threshold, max_gamma=self.max_gamma)
        return None

    def timing_model(self) -> TimingModel:
        """What draft steps, passes and plain steps cost."""
        if self.timing == "roofline":
            return RooflineTiming(self.c, 1.0, self.token_time, batch=self.batch)
        if self.timing == "constant":
            return ConstantTiming(self.c, 1.0, verify_slope=self.verify_slope)
        return JitterTiming(
            self.c, 1.0, self.variation, law=self.timing, verify_slope=self.verify_slope
        )

    def stop_rule(self) -> StopRule:
        """When a run ends."""
        if self.stop == "rounds":
            return AtRounds(self.length)
        return AtEos(self.hazard, self.length) if self.stop == "eos" else AtTokens(self.length)


_CHOICES = {
    "process": get_args(ProcessName),
    "policy": get_args(PolicyName),
    "timing": get_args(TimingName),
    "stop": get_args(StopName),
}
