"""The simulator: rounds of drafting and verification, for many independent runs at once."""

from __future__ import annotations

import numpy as np

from specverify._arrays import FloatArray, IntArray
from specverify.simulate.acceptance import AcceptanceProcess, BulkAcceptance
from specverify.simulate.bulk import Conditions, Tally, count_in_bulk
from specverify.simulate.outcome import SimulatedRuns
from specverify.simulate.policies import FixedGamma, GammaPolicy
from specverify.simulate.stopping import StopRule
from specverify.simulate.timing import TimingModel
from specverify.theory.validation import checked_cost, checked_count

__all__ = ["simulate_runs"]


def simulate_runs(
    acceptance: AcceptanceProcess,
    policy: GammaPolicy,
    timing: TimingModel,
    stop: StopRule,
    *,
    runs: int,
    generator: np.random.Generator,
    bonus: bool = True,
    overlap: bool = False,
    target_prefill: float = 0.0,
    draft_prefill: float = 0.0,
) -> SimulatedRuns:
    """Independent runs of speculative decoding, reduced to accept tests and times.

    Args:
        acceptance: How likely draft tokens are accepted, round by round.
        policy: How many are drafted.
        timing: What draft steps, passes and plain steps cost.
        stop: When a run ends.
        runs: Independent runs, at least 1; standard errors need two.
        generator: Source of randomness.
        bonus: Whether a fully accepted block earns one more token.
        overlap: Draft the next block while the target verifies this one. What was drafted ahead is
            of use only after a full accept; then only the part that outlasts the verification
            costs time. With a bonus token this is the best case: it takes the bonus as foreseen.
        target_prefill: Time of the target's pass over the prompt, paid by both ways of decoding.
        draft_prefill: Time of the draft's pass over the prompt, paid by speculation alone.

    Returns:
        Totals of each run. With a fixed draft length, no overlap and a process that counts in bulk,
        the cost does not grow with the length of a run, but for the last few rounds.

    Raises:
        InvalidInputError: If a number is out of range, or the policy may draft more tokens than
            the process has alphas for.
    """
    checked_count("runs", runs)
    checked_cost("target_prefill", target_prefill)
    checked_cost("draft_prefill", draft_prefill)
    setting = Conditions(acceptance, policy, timing, stop, generator, bonus)
    wanted = stop.wanted(generator, runs)
    if isinstance(acceptance, BulkAcceptance) and isinstance(policy, FixedGamma) and not overlap:
        tally = count_in_bulk(setting, acceptance, policy.gamma, wanted)
    else:
        tally = _round_by_round(setting, wanted, overlap=overlap)
    delivered = wanted if stop.unit == "tokens" else tally.emitted
    return SimulatedRuns(
        delivered=delivered,
        emitted=tally.emitted,
        rounds=tally.rounds,
        drafted=tally.drafted,
        tested=tally.tested,
        accepted=tally.accepted,
        speculative_time=tally.time + target_prefill + draft_prefill,
        plain_time=timing.plain_times(generator, delivered) + target_prefill,
    )


def _round_by_round(setting: Conditions, wanted: IntArray, *, overlap: bool) -> Tally:
    """One round of every run that still goes on, until none does."""
    generator, policy, runs = setting.generator, setting.policy, len(wanted)
    tally = Tally(runs)
    state = setting.acceptance.start(generator, runs)
    memory = policy.start(runs)
    head_start = np.zeros(runs)  # time during which this round's draft was made already
    going = np.arange(runs)
    while going.size:
        alphas, state[going] = setting.acceptance.next_round(
            generator, state[going], policy.max_gamma
        )
        gamma = policy.choose(memory[going], alphas)
        accepted = _accepted(generator, alphas, gamma)
        memory[going] = policy.update(memory[going], accepted)
        tally.emitted[going] += np.minimum(accepted + 1, gamma + int(setting.bonus))
        tally.rounds[going] += 1
        tally.drafted[going] += gamma
        tally.tested[going] += np.minimum(accepted + 1, gamma)
        tally.accepted[going] += accepted
        draft_time = setting.timing.draft_times(generator, gamma)
        verify_time = setting.timing.verify_times(generator, np.ones_like(gamma), gamma)
        tally.time[going] += np.maximum(draft_time - head_start[going], 0) + verify_time
        if overlap:
            head_start[going] = np.where(accepted == gamma, verify_time, 0.0)
        going = going[(tally.progress(setting.stop) < wanted)[going]]
    return tally


def _accepted(generator: np.random.Generator, alphas: FloatArray, gamma: IntArray) -> IntArray:
    """Accepted tokens of one round: one uniform in (0, 1] against the chance to come so far."""
    uniform = 1 - generator.random(len(gamma))
    chance = np.ones(len(gamma))
    accepted = np.zeros(len(gamma), dtype=np.int64)
    for alpha in alphas.T:  # few positions, many runs: faster than a product along rows
        chance *= alpha
        accepted += chance >= uniform
    return np.minimum(accepted, gamma)
