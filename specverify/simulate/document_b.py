"""The handbook's simulator of one generation: a constant acceptance rate and two times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specverify.simulate.acceptance import ConstantAcceptance
from specverify.simulate.policies import FixedGamma
from specverify.simulate.rounds import simulate_runs
from specverify.simulate.stopping import AtTokens
from specverify.simulate.timing import ConstantTiming
from specverify.theory.validation import checked_cost, checked_count, checked_probability

__all__ = ["SimulatedGeneration", "SimulatedSpeculativeDecoder"]


@dataclass(frozen=True)
class SimulatedGeneration:
    """One simulated generation.

    Attributes:
        tokens: Emitted token ids, shape ``(n,)``; ``n`` may pass the number asked for, since the
            whole last round is kept. The ids are uniform stand-ins: only their number means
            something.
        rounds: Passes of the target.
        speculative_time_ms: Time of the rounds, in milliseconds.
        standard_time_ms: Time of as many plain steps as tokens were asked for.
        speedup: Standard over speculative time.
        tokens_per_round: Emitted tokens over rounds; biased upward by the whole last round.
    """

    tokens: NDArray[np.int64]
    rounds: int
    speculative_time_ms: float
    standard_time_ms: float
    speedup: float
    tokens_per_round: float


class SimulatedSpeculativeDecoder:
    """Speculative decoding reduced to accept tests, as document B has it: no bonus token.

    Args:
        acceptance_rate: Probability in [0, 1] that a draft token is accepted.
        vocab_size: Size of the vocabulary that the stand-in tokens are drawn from, at least 1.
        generator: Source of randomness; a fresh, unseeded one if not given.

    Raises:
        InvalidInputError: If an argument is out of range.
    """

    def __init__(
        self,
        acceptance_rate: float,
        vocab_size: int,
        *,
        generator: np.random.Generator | None = None,
    ) -> None:
        self.acceptance_rate = float(checked_probability("acceptance_rate", acceptance_rate))
        self.vocab_size = checked_count("vocab_size", vocab_size)
        self._generator = generator if generator is not None else np.random.default_rng()

    def simulate_generation(
        self, total_tokens: int, num_draft: int, draft_time_ms: float, target_time_ms: float
    ) -> SimulatedGeneration:
        """Rounds until at least ``total_tokens`` tokens are out.

        A round drafts ``num_draft`` tokens and emits the accepted ones and, after a rejection, its
        correction; a full accept earns nothing more. The exact law of the result is
        ``stopped_decode_law(emitted_length_pmf(acceptance_rate, num_draft, bonus=False), ...)``.

        Args:
            total_tokens: Tokens wanted, at least 1.
            num_draft: Draft tokens per round, at least 1.
            draft_time_ms: Time of one draft step, at least 0.
            target_time_ms: Time of one target pass, above 0.

        Returns:
            The generation; its tokens are never fewer than asked for, and fewer than
            ``total_tokens + num_draft``.

        Raises:
            InvalidInputError: If an argument is out of range or not finite.
        """
        checked_count("total_tokens", total_tokens)
        checked_count("num_draft", num_draft)
        checked_cost("draft_time_ms", draft_time_ms)
        checked_cost("target_time_ms", target_time_ms, positive=True)
        run = simulate_runs(
            ConstantAcceptance(self.acceptance_rate),
            FixedGamma(num_draft),
            ConstantTiming(draft_time_ms, target_time_ms),
            AtTokens(total_tokens),
            runs=1,
            generator=self._generator,
            bonus=False,
        )
        return SimulatedGeneration(
            tokens=self._generator.integers(self.vocab_size, size=int(run.emitted[0])),
            rounds=int(run.rounds[0]),
            speculative_time_ms=float(run.speculative_time[0]),
            standard_time_ms=float(run.plain_time[0]),
            speedup=float(run.plain_time[0] / run.speculative_time[0]),
            tokens_per_round=float(run.emitted[0] / run.rounds[0]),
        )
