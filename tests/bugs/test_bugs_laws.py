"""Exact laws: bugs are off by what the notes say, controls not at all, theory agrees."""

from __future__ import annotations

import math

import numpy as np
import pytest

from specverify.bugs import CONTROLS, LOSSY, ZOO, Effect, Kind
from specverify.bugs.laws import (
    block_law,
    emitted_law,
    exact_tv,
    kl_divergence,
    law_distance,
    samples_to_detect,
    target_law,
)
from specverify.bugs.scenes import SCENES, rows_scene
from specverify.bugs.staged import STANDARD, StagedVerifier, remembering
from specverify.distributions import total_variation
from specverify.errors import InvalidInputError
from specverify.theory.block_law import block_law as standard_block_law

P1, Q1 = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
ROWS = np.array([[0.4, 0.1, 0.1, 0.4], [0.1, 0.2, 0.3, 0.4], [0.45, 0.15, 0.1, 0.3]])
DRAFTS = np.array([[0.1, 0.4, 0.4, 0.1], [0.3, 0.05, 0.6, 0.05]])

WITH_A_LAW = [bug for bug in ZOO.values() if bug.kind is not Kind.COUNTER]
WRONG = [bug for bug in WITH_A_LAW if bug.effect is Effect.LAW] + list(LOSSY.values())
RIGHT = [bug for bug in WITH_A_LAW if bug.effect is not Effect.LAW] + list(CONTROLS.values())
IN_CLOSED_FORM = [bug for bug in [*ZOO.values(), *LOSSY.values()] if bug.row_law]


def marginal(law, vocab_size: int) -> np.ndarray:
    first = np.zeros(vocab_size)
    for tokens, mass in law.items():
        first[tokens[0]] += mass
    return first


@pytest.mark.parametrize("bug", WRONG, ids=str)
def test_a_bug_of_the_law_is_off(bug) -> None:
    assert exact_tv(bug, SCENES.get(bug.scene, SCENES["P1"])) > 1e-5


@pytest.mark.parametrize(
    "scene", ["P1", "P2", "P3", "M3", "R2", "masked", "greedy", "eos", "equal"]
)
@pytest.mark.parametrize("bug", RIGHT, ids=str)
def test_what_is_right_is_right_everywhere(bug, scene) -> None:
    assert exact_tv(bug, SCENES[scene]) < 1e-12


@pytest.mark.parametrize("bug", IN_CLOSED_FORM, ids=str)
def test_the_closed_form_is_the_enumerated_first_marginal(bug) -> None:
    scene = rows_scene(ROWS, DRAFTS)
    found = marginal(emitted_law(bug, scene), 4)
    np.testing.assert_allclose(bug.row_law(ROWS[0], DRAFTS[0]), found, atol=1e-12)


@pytest.mark.parametrize("bug", IN_CLOSED_FORM, ids=str)
def test_the_closed_form_takes_batches_of_large_rows(bug) -> None:
    rng = np.random.default_rng(0)
    target, draft = rng.dirichlet(np.ones(300), size=(2, 5))
    laws = bug.row_law(target, draft)
    np.testing.assert_allclose(laws.sum(axis=-1), 1, atol=1e-9)
    np.testing.assert_allclose(laws[3], bug.row_law(target[3], draft[3]), atol=1e-12)


def test_the_standard_block_has_the_law_of_the_theory() -> None:
    ours = block_law(STANDARD, ROWS, DRAFTS)
    assert ours == pytest.approx(standard_block_law(ROWS, DRAFTS), abs=1e-14)


@pytest.mark.parametrize(
    ("name", "distance"),
    [
        ("residual_softmax", 0.179),
        ("rejected_zeroed", 0.1125),
        ("argmax_draft", 0.30),
        ("verify_argmax", 0.5),
        ("first_unverified", 0.3),
    ],
)
def test_first_marginals_on_p1(name, distance) -> None:
    law = (
        ZOO[name].row_law(P1, Q1)
        if ZOO[name].row_law
        else marginal(emitted_law(ZOO[name], SCENES["P1"]), 3)
    )
    assert float(total_variation(law, P1)) == pytest.approx(distance, abs=5e-4)


def test_argmax_drafts_on_p1() -> None:
    np.testing.assert_allclose(ZOO["argmax_draft"].row_law(P1, Q1), [0.6, 0, 0.4], atol=1e-12)


def test_target_at_temperature_one_on_p1_at_one_half() -> None:
    target = SCENES["T05"].target_next(())
    law = ZOO["target_at_temperature_one"].row_law(target, Q1)
    np.testing.assert_allclose(law, P1, atol=1e-12)
    assert float(total_variation(law, target)) == pytest.approx(0.158, abs=5e-4)


def lengths(verifier: StagedVerifier) -> list[float]:
    law = block_law(verifier, np.tile(P1, (3, 1)), np.tile(Q1, (2, 1)))
    return [sum(m for tokens, m in law.items() if len(tokens) == n) for n in (1, 2, 3)]


def test_acceptance_histogram_of_a_shared_uniform() -> None:
    np.testing.assert_allclose(lengths(ZOO["shared_uniform"].callable), [0.30, 0.15, 0.55])
    np.testing.assert_allclose(lengths(STANDARD), [0.30, 0.21, 0.49])


def test_acceptance_of_the_slow_control_on_p1() -> None:
    slow = CONTROLS["accept_target_probability"].callable
    assert 1 - lengths(slow)[0] == pytest.approx(0.29)
    assert 1 - lengths(CONTROLS["sample_and_match"].callable)[0] == pytest.approx(0.29)
    assert 1 - lengths(STANDARD)[0] == pytest.approx(0.70)


def test_block_verification_accepts_no_less_than_the_standard_rule() -> None:
    def mean(verifier):
        return sum(len(t) * m for t, m in block_law(verifier, ROWS, DRAFTS).items())

    assert mean(CONTROLS["block_verification"].callable) > mean(STANDARD) + 0.01


@pytest.mark.parametrize(
    ("name", "scene"),
    [
        ("rejected_zeroed", "R2"),
        ("reused_uniform", "P1"),
        ("residual_next_row", "P1"),
        ("draft_row_off", "P1"),
        ("target_row_off", "P1"),
        ("final_argmax", "greedy"),
        ("recurrent_state_untrimmed", "M3"),
        ("state_from_slot_zero", "P1"),
        ("first_token_lost", "P1"),
        ("mask_missing_at_bonus", "P1"),
        ("id_beyond_vocabulary", "P2"),
        ("target_at_temperature_one", "greedy"),
    ],
)
def test_bugs_are_blind_where_they_say(name, scene) -> None:
    assert exact_tv(ZOO[name], SCENES[scene]) < 1e-12
    assert ZOO[name].blind


def test_laws_sum_to_one() -> None:
    for bug in [*WRONG, *RIGHT]:
        if bug.kind is not Kind.BATCHED:
            total = math.fsum(emitted_law(bug, SCENES[bug.scene]).values())
            assert total == pytest.approx(1, abs=1e-12)


def test_the_target_law_stops_at_the_end_of_the_text() -> None:
    law = target_law(ZOO["past_eos"], SCENES["eos"])
    assert law[(2,)] == pytest.approx(0.2)
    assert all(2 not in tokens[:-1] for tokens in law)


def test_divergence_and_samples() -> None:
    assert kl_divergence({0: 0.5, 1: 0.5}, {0: 0.25, 1: 0.75}) == pytest.approx(0.14384103622589045)
    assert kl_divergence({0: 0.5, 1: 0.5}, {0: 1.0}) == math.inf
    assert law_distance({0: 0.5, 1: 0.5}, {0: 0.25, 2: 0.75}) == pytest.approx(0.75)


def test_samples_to_detect_is_the_oracle_s() -> None:
    bug, scene = ZOO["resample_from_target"], SCENES["P1"]
    divergence = kl_divergence(emitted_law(bug, scene), target_law(bug, scene))
    assert samples_to_detect(bug, scene, level=1e-3) == pytest.approx(math.log(1e3) / divergence)
    assert samples_to_detect(CONTROLS["no_bonus"], scene) == math.inf
    # The first impossible block is proof: one over their probability.
    impossible = ZOO["processors_unused"], SCENES["masked"]
    assert samples_to_detect(*impossible) == pytest.approx(1 / exact_tv(*impossible))
    assert samples_to_detect(ZOO["padding_accepted"], SCENES["P1"]) == pytest.approx(1 / 0.7)


def test_refusals() -> None:
    with pytest.raises(InvalidInputError, match="level"):
        samples_to_detect(ZOO["abs_residual"], SCENES["P1"], level=0)
    with pytest.raises(InvalidInputError, match="all_counters_zero"):
        emitted_law(ZOO["all_counters_zero"], SCENES["P1"])


def test_a_remembering_verifier_asks_its_stages_once_for_the_same_rows() -> None:
    asked: list[np.ndarray] = []

    def accept(target: np.ndarray, draft: np.ndarray) -> np.ndarray:
        asked.append(target)
        return np.minimum(1.0, target / draft)

    verifier = remembering(StagedVerifier(accept=accept))
    rng = np.random.default_rng(3)
    target, draft = rng.dirichlet(np.ones(4), size=3), rng.dirichlet(np.ones(4), size=2)
    law = block_law(verifier, target, draft)
    assert len(asked) == 1
    assert law == block_law(StagedVerifier(), target, draft)
    assert block_law(verifier, target[::-1], draft) != law
    assert len(asked) == 2
