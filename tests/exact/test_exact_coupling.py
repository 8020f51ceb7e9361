"""Races that share noise: closed forms, numerical integration, real draws, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import dblquad

from specverify.distributions import residual_distribution, total_variation
from specverify.errors import UnsupportedRandomness
from specverify.exact import TracedGenerator, enumerate_law
from specverify.exact.blocks import check_exact
from specverify.exact.scenario import BlockScenario
from specverify.stats.goodness import pooled_chi_square

RNG = TracedGenerator()
TARGET = np.array([0.45, 0.15, 0.1, 0.3])
DRAFT = np.array([0.3, 0.05, 0.6, 0.05])
SPARSE = np.array([0.5, 0.0, 0.2, 0.3])


def twice(rng: Any, first: Any = DRAFT, second: Any = TARGET) -> tuple[int, int]:
    """A Gumbel vector that decides two races."""
    noise = rng.gumbel(size=4)
    with np.errstate(divide="ignore"):
        return int(np.argmax(np.log(first) + noise)), int(np.argmax(np.log(second) + noise))


def joint(first: Any = DRAFT, second: Any = TARGET) -> dict[Any, float]:
    return dict(enumerate_law(lambda: twice(RNG, first, second)).probabilities)


def test_two_races_agree_as_often_as_the_closed_form_says() -> None:
    """The sum over i of 1 / sum_j max(p_j / p_i, q_j / q_i): Daliri et al. (arXiv:2408.07978)."""
    law = joint()
    expected = math.fsum(
        1 / math.fsum(max(p / TARGET[i], q / DRAFT[i]) for p, q in zip(TARGET, DRAFT, strict=True))
        for i in range(4)
    )
    assert math.isclose(math.fsum(m for (a, b), m in law.items() if a == b), expected)
    # Far more often than independent draws would.
    assert expected > float(TARGET @ DRAFT) + 0.2


@pytest.mark.parametrize("second", [TARGET, SPARSE], ids=["full", "sparse"])
def test_each_race_keeps_its_own_law(second: Any) -> None:
    law = joint(DRAFT, second)
    for index in range(4):
        first = math.fsum(mass for (a, _), mass in law.items() if a == index)
        last = math.fsum(mass for (_, b), mass in law.items() if b == index)
        assert math.isclose(first, DRAFT[index], abs_tol=1e-15)
        assert math.isclose(last, second[index], abs_tol=1e-15)


def integrated(a: int, b: int) -> float:
    """P(a wins by DRAFT, b by TARGET) by integration over the exponentials of the two winners."""

    def density(y: float, x: float) -> float:
        rest = 0.0
        for j in range(4):
            if j not in (a, b):
                rest += max(DRAFT[j] / DRAFT[a] * x, TARGET[j] / TARGET[b] * y)
        return math.exp(-x - y - rest)

    # e_b / DRAFT[b] > e_a / DRAFT[a] and e_a / TARGET[a] > e_b / TARGET[b].
    low, high = DRAFT[b] / DRAFT[a], TARGET[b] / TARGET[a]
    if low >= high:
        return 0.0
    return float(dblquad(density, 0, 60, lambda x: low * x, lambda x: high * x, epsabs=1e-10)[0])


def test_the_joint_law_agrees_with_numerical_integration() -> None:
    law = joint()
    for a in range(4):
        for b in range(4):
            if a != b:
                assert math.isclose(law.get((a, b), 0.0), integrated(a, b), abs_tol=1e-8)


def counted(draw: Callable[[Any], Any], law: dict[Any, float], runs: int) -> tuple[Any, Any]:
    rng, order = np.random.default_rng(3), sorted(law)
    counts = dict.fromkeys(order, 0)
    for _ in range(runs):
        counts[draw(rng)] += 1
    return np.array([counts[key] for key in order]), np.array([law[key] for key in order])


def test_the_joint_law_agrees_with_real_draws() -> None:
    """20,000 real runs, chi-square at level 1e-6; independent races fail it."""
    law = joint()
    observed, probs = counted(twice, law, 20_000)
    assert pooled_chi_square(observed, probs).p_value > 1e-6
    independent = np.array([DRAFT[a] * TARGET[b] for a, b in sorted(law)])
    independent /= independent.sum()
    assert pooled_chi_square(observed, independent).p_value < 1e-6


def shared_correction(rng: Any) -> tuple[int, int]:
    """Draft and residual are drawn with the same exponentials; the accept test is fresh."""
    noise = rng.exponential(size=4)
    draft = int(np.argmax(DRAFT / noise))
    if rng.random() < TARGET[draft] / DRAFT[draft]:
        return draft, draft
    return draft, int(np.argmax(residual_distribution(TARGET, DRAFT) / noise))


def test_noise_shared_by_draft_and_correction_is_followed() -> None:
    law = dict(enumerate_law(lambda: shared_correction(RNG)).probabilities)
    observed, probs = counted(shared_correction, law, 20_000)
    assert pooled_chi_square(observed, probs).p_value > 1e-6
    emitted = np.zeros(4)
    for (_, token), mass in law.items():
        emitted[token] += mass
    assert float(total_variation(emitted, TARGET)) > 0.01  # a bias, and it is seen


def coupled_verifier(target: Any, draft: Any, tokens: Any, generator: Any) -> Any:
    """Draws its own drafts: sample and match with one Gumbel vector a position."""
    emitted: list[int] = []
    for place, row in enumerate(target):
        noise = generator.gumbel(size=len(row))
        emitted.append(int(np.argmax(np.log(row) + noise)))
        if place == len(draft) or np.argmax(np.log(draft[place]) + noise) != emitted[-1]:
            return emitted
    raise AssertionError("the last position returns")


def test_gumbel_coupling_is_lossless() -> None:
    rng = np.random.default_rng(8)
    scenario = BlockScenario.from_rows(rng.dirichlet(np.ones(3), 3), rng.dirichlet(np.ones(3), 2))
    found = check_exact(coupled_verifier, scenario, framework="numpy")
    assert found.lossless
    assert found.tv.high < 1e-12


def test_tensors_share_noise_too() -> None:
    weights = torch.tensor(DRAFT), torch.tensor(TARGET)

    def draw() -> Any:
        noise = torch.empty(4, dtype=torch.float64).exponential_()
        return (weights[0] / noise).argmax().item(), (weights[1] / noise).argmax().item()

    found = enumerate_law(draw).probabilities
    for pair, mass in joint().items():
        assert math.isclose(found[pair], mass, abs_tol=1e-15)


def test_the_same_race_again_has_the_same_winner() -> None:
    def draw() -> list[int]:
        noise = RNG.exponential(size=4)
        return [int(np.argmax(TARGET / noise)) for _ in range(3)]

    law = enumerate_law(draw)
    assert set(law.probabilities) == {(k, k, k) for k in range(4)}
    assert law.slack < 1e-12


def test_unread_winners_stay_unread() -> None:
    """A second race that nobody reads does not branch."""

    def draw() -> Any:
        noise = torch.empty(4, dtype=torch.float64).exponential_()
        first = (torch.tensor(TARGET) / noise).argmax()
        (torch.tensor(TARGET) / torch.empty(4).double().exponential_()).argmax()
        return first

    assert enumerate_law(draw).runs == 1


def test_separate_vectors_stay_independent() -> None:
    def draw() -> list[int]:
        one, two = RNG.exponential(size=4), RNG.exponential(size=4)
        pairs = [(DRAFT, one), (TARGET, one), (TARGET, two), (DRAFT, two)]
        return [int(np.argmax(weights / noise)) for weights, noise in pairs]

    law, single = enumerate_law(draw).probabilities, joint()
    for (a, b, c, d), mass in law.items():
        expected = single.get((a, b), 0.0) * single.get((d, c), 0.0)
        assert math.isclose(mass, expected, abs_tol=1e-15)


def _three() -> Any:
    noise = RNG.exponential(size=4)
    laws = DRAFT, TARGET, np.array([0.1, 0.6, 0.1, 0.2])
    return [int(np.argmax(law / noise)) for law in laws]


def _mirrored() -> Any:
    u = RNG.random(4)
    return int(np.argmin(-np.log(u) / DRAFT)), int(np.argmin(-np.log(1 - u) / TARGET))


def _compared() -> Any:
    u = RNG.random(4)
    return int(np.argmin(-np.log(u) / DRAFT)), bool(u[0] < 0.5)


def _ranked() -> Any:
    noise = RNG.exponential(size=4)
    return int(np.argmax(DRAFT / noise)), np.argsort(noise / TARGET)[:2]


def _integrated_after() -> Any:
    u = RNG.random(4)
    guarded = -np.log(-np.log(u + 1e-10) + 1e-10)
    return int(np.argmin(-np.log(u) / DRAFT)), int(np.argmax(np.log(TARGET) + guarded))


REFUSED = {
    "three winners": (_three, "three different winners"),
    "u and one minus u": (_mirrored, "one minus it"),
    "compared afterwards": (_compared, "already decided"),
    "ranked afterwards": (_ranked, "already decided"),
    "integrated afterwards": (_integrated_after, "already decided"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_closed_form_is_refused(name: str) -> None:
    draw, reason = REFUSED[name]
    with pytest.raises(UnsupportedRandomness, match=reason):
        enumerate_law(draw)
