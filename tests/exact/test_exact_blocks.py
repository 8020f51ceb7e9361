"""Block verifiers: the reference is lossless, and every bug has its closed-form distance."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from specverify.distributions import (
    acceptance_rate,
    residual_distribution,
    total_variation,
)
from specverify.errors import InvalidInputError, UnsupportedRandomness
from specverify.exact.blocks import check_exact, exact_block_law, exact_verify_tv
from specverify.exact.scenario import BlockScenario
from specverify.models.tabular import TabularModel
from specverify.sampler.batched import verify_blocks
from specverify.sampler.verify import speculative_verify
from specverify.theory.block_law import block_law

# P3 of the bug catalogue: no residual of it is a single token.
TARGET_ROW = np.array([0.45, 0.15, 0.1, 0.3])
DRAFT_ROW = np.array([0.3, 0.05, 0.6, 0.05])
TARGET = np.stack([TARGET_ROW, TARGET_ROW[::-1]])
DRAFT = DRAFT_ROW[None]


def rows(vocab: int, gamma: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng([seed, vocab, gamma])
    return rng.dirichlet(np.ones(vocab), gamma + 1), rng.dirichlet(np.ones(vocab), gamma)


def verifier(
    accept: Callable[[Any, Any, Any], Any] | None = None,
    correction: Callable[[Any, Any], Any] | None = None,
    bonus: Callable[[Any, Any], Any] | None = None,
) -> Callable[..., Any]:
    """The standard verifier in numpy, with one part replaced."""

    def verify(target: Any, draft: Any, tokens: Any, generator: Any) -> Any:
        emitted: list[int] = []
        for p, q, token in zip(target, draft, tokens, strict=False):
            u = generator.random()
            ratio = p[token] / q[token]
            if u < (ratio if accept is None else accept(p, q, token)):
                emitted.append(token)
                continue
            weights = (correction or residual_distribution)(p, q)
            emitted.append(generator.choice(len(p), p=weights / weights.sum()))
            return emitted
        last = target[len(draft)] if bonus is None else bonus(target, draft)
        return [*emitted, generator.choice(len(last), p=last)]

    return verify


@pytest.mark.parametrize("framework", ["torch", "numpy"])
@pytest.mark.parametrize(("vocab", "gamma"), [(2, 1), (3, 1), (6, 1), (2, 3), (3, 2), (4, 3)])
def test_the_reference_is_lossless(framework: str, vocab: int, gamma: int) -> None:
    scenario = BlockScenario.from_rows(*rows(vocab, gamma))
    found = check_exact(speculative_verify, scenario, framework=framework)  # type: ignore[arg-type]
    assert found.tv.high < 1e-12
    assert found.lossless
    assert found.law.complete


@pytest.mark.parametrize("framework", ["torch", "numpy"])
def test_the_batched_reference_is_lossless(framework: str) -> None:
    scenario = BlockScenario.from_rows(*rows(3, 2))
    found = check_exact(verify_blocks, scenario, form="batched", framework=framework)  # type: ignore[arg-type]
    assert found.tv.high < 1e-12


@pytest.mark.parametrize(
    ("target", "draft"),
    [
        (np.eye(3)[[0, 1]], np.eye(3)[[2]]),
        (np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]), np.array([[0.0, 0.0, 1.0]])),
        (np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]), np.array([[0.5, 0.5, 0.0]])),
        (np.array([[0.5, 0.5 - 1e-9, 1e-9], [1.0, 0.0, 0.0]]), np.array([[0.5 - 1e-9, 0.5, 1e-9]])),
    ],
    ids=["one-hot", "disjoint", "equal", "near"],
)
def test_the_reference_is_lossless_at_the_edges(target: Any, draft: Any) -> None:
    for framework in ("torch", "numpy"):
        scenario = BlockScenario.from_rows(target, draft)
        assert check_exact(speculative_verify, scenario, framework=framework).tv.high < 1e-12  # type: ignore[arg-type]


def test_the_reference_is_lossless_where_rows_depend_on_the_tokens() -> None:
    rng = np.random.default_rng(4)
    target, draft = (TabularModel.random(3, 1, rng) for _ in range(2))
    scenario = BlockScenario.from_models(target, draft, prompt=(1,), gamma=2)
    assert check_exact(speculative_verify, scenario).tv.high < 1e-12


def test_float32_stays_within_its_rounding() -> None:
    scenario = BlockScenario.from_rows(*rows(5, 2))
    found = check_exact(speculative_verify, scenario, dtype="float32")
    assert found.lossless
    assert 0 < found.tv.high < 1e-6


def test_the_law_of_a_block_is_the_theory_s() -> None:
    target, draft = rows(3, 2)
    found = exact_block_law(speculative_verify, torch.tensor(target), torch.tensor(draft))
    expected = block_law(target, draft)
    assert found.probabilities.keys() == expected.keys()
    for tokens, mass in expected.items():
        assert math.isclose(found.probabilities[tokens], mass, abs_tol=1e-14)


def no_bonus(target: Any, draft: Any, tokens: Any, generator: Any) -> Any:
    emitted = speculative_verify(target, draft, tokens, generator)[0]
    return emitted[: len(draft)]


def sample_and_match(target: Any, draft: Any, tokens: Any, generator: Any) -> Any:
    emitted = []
    for place, row in enumerate(target):
        emitted.append(generator.choice(len(row), p=row))
        if place == len(tokens) or emitted[-1] != tokens[place]:
            return emitted
    return emitted


def slow_but_exact(target: Any, draft: Any, tokens: Any, generator: Any) -> Any:
    """Accept with the target's probability, else redraw from the target without the draft."""

    def without(p: Any, q: Any) -> Any:
        return p

    for place, token in enumerate(tokens):
        p = target[place]
        if not generator.random() < p[token]:
            rest = np.where(np.arange(len(p)) == token, 0.0, without(p, None))
            return [*tokens[:place], generator.choice(len(p), p=rest / rest.sum())]
    return [*tokens, generator.choice(len(target[-1]), p=target[-1])]


@pytest.mark.parametrize("verify", [no_bonus, sample_and_match, slow_but_exact])
def test_every_lossless_scheme_has_distance_zero(verify: Callable[..., Any]) -> None:
    scenario = BlockScenario.from_rows(*rows(3, 3))
    found = check_exact(verify, scenario, framework="numpy")
    assert found.tv.high < 1e-12
    # ... although they emit fewer tokens than the standard rule.
    standard = check_exact(speculative_verify, scenario, framework="numpy")
    assert found.mean_emitted < standard.mean_emitted - 0.05


def one_block_tv(accepted: Any, correction: Any) -> float:
    """Distance of the first token: accepted mass plus rejected mass times its correction."""
    emitted = accepted + (1 - accepted.sum()) * correction / correction.sum()
    return float(total_variation(emitted, TARGET_ROW))


OVERLAP = np.minimum(TARGET_ROW, DRAFT_ROW)
ALPHA = float(acceptance_rate(TARGET_ROW, DRAFT_ROW))
FIRST_TOKEN_BUGS: dict[str, tuple[Callable[..., Any], float]] = {
    "resample from the target": (
        verifier(correction=lambda p, q: p),
        one_block_tv(OVERLAP, TARGET_ROW),
    ),
    "absolute residual": (
        verifier(correction=lambda p, q: np.abs(p - q)),
        one_block_tv(OVERLAP, np.abs(TARGET_ROW - DRAFT_ROW)),
    ),
    "accept by the target": (
        verifier(accept=lambda p, q, token: p[token]),
        one_block_tv(
            DRAFT_ROW * TARGET_ROW, np.asarray(residual_distribution(TARGET_ROW, DRAFT_ROW))
        ),
    ),
    "ratio swapped": (
        verifier(accept=lambda p, q, token: q[token] / p[token]),
        one_block_tv(
            DRAFT_ROW * np.minimum(1, DRAFT_ROW / TARGET_ROW),
            np.asarray(residual_distribution(TARGET_ROW, DRAFT_ROW)),
        ),
    ),
    "accept everything": (
        verifier(accept=lambda p, q, token: 2.0),
        float(total_variation(TARGET_ROW, DRAFT_ROW)),
    ),
}


@pytest.mark.parametrize("name", FIRST_TOKEN_BUGS)
def test_a_bug_has_its_closed_form_distance(name: str) -> None:
    verify, expected = FIRST_TOKEN_BUGS[name]
    found = check_exact(verify, BlockScenario.from_rows(TARGET, DRAFT), framework="numpy")
    assert math.isclose(found.by_length[0].low, expected, abs_tol=1e-12)
    assert math.isclose(found.by_length[0].high, expected, abs_tol=1e-12)
    assert found.lossless is False
    assert found.position == 0


def test_a_bonus_from_the_draft_deviates_at_the_second_token() -> None:
    found = check_exact(
        verifier(bonus=lambda target, draft: draft[0]),
        BlockScenario.from_rows(TARGET, DRAFT),
        framework="numpy",
    )
    assert found.position == 1
    assert found.by_length[0].high < 1e-12
    expected = ALPHA * total_variation(TARGET[1], DRAFT_ROW)
    assert math.isclose(found.tv.low, float(expected), abs_tol=1e-12)


def reused_uniform(target: Any, draft: Any, tokens: Any, generator: Any) -> Any:
    """The accept test's uniform also picks the correction: it is too large by construction."""
    u = generator.random()
    p, q, token = target[0], draft[0], int(tokens[0])
    if u < p[token] / q[token]:
        return [token, generator.choice(len(p), p=target[1])]
    return [int(np.searchsorted(np.cumsum(residual_distribution(p, q)), u))]


def test_a_reused_uniform_is_followed() -> None:
    p, q = TARGET_ROW, DRAFT_ROW
    residual = np.asarray(residual_distribution(p, q))
    edges = np.concatenate([[0.0], np.cumsum(residual)])
    emitted = OVERLAP.copy()
    for token, ratio in enumerate(p / q):
        if ratio < 1:
            kept = np.clip(edges[1:], ratio, 1) - np.clip(edges[:-1], ratio, 1)
            emitted += q[token] * kept
    found = check_exact(reused_uniform, BlockScenario.from_rows(TARGET, DRAFT), framework="numpy")
    expected = float(total_variation(emitted, p))
    assert expected > 0.01
    assert math.isclose(found.by_length[0].low, expected, abs_tol=1e-12)


def one_uniform_for_all(target: Any, draft: Any, tokens: Any, generator: Any) -> Any:
    """C4 of the catalogue: the same uniform tests every position."""
    u = torch.rand(1, dtype=torch.float64, generator=generator)
    places = torch.arange(len(tokens))
    passed = (u < target[places, tokens] / draft[places, tokens]).int().cumprod(0)
    n = int(passed.sum())
    last = target[n] if n == len(tokens) else residual_distribution(target[n], draft[n])
    return torch.cat([tokens[:n], torch.multinomial(last, 1, generator=generator)])


def test_one_uniform_for_every_position_deviates_at_the_second() -> None:
    """P1 at gamma 2: (.30, .15, .55) for (.30, .21, .49) tokens a block, as reported."""
    target = np.tile([0.5, 0.3, 0.2], (3, 1))
    draft = np.tile([0.2, 0.3, 0.5], (2, 1))
    found = check_exact(one_uniform_for_all, BlockScenario.from_rows(target, draft))
    assert found.position == 1
    lengths = [
        math.fsum(m for tokens, m in found.law.probabilities.items() if len(tokens) == n)
        for n in (1, 2, 3)
    ]
    assert np.allclose(lengths, [0.3, 0.15, 0.55], atol=1e-12)


def test_tokens_outside_the_vocabulary_count_against_it() -> None:
    verify = verifier()
    found = check_exact(
        lambda *args: [token + (token == 3) for token in verify(*args)],
        BlockScenario.from_rows(TARGET, DRAFT),
        framework="numpy",
    )
    assert found.invalid_mass > 0.3
    assert found.tv.low >= found.invalid_mass


def test_a_budget_bounds_the_distance_from_both_sides() -> None:
    verify, expected = FIRST_TOKEN_BUGS["resample from the target"]
    scenario = BlockScenario.from_rows(TARGET, DRAFT)
    exact = check_exact(verify, scenario, framework="numpy").tv
    assert math.isclose(exact.low, expected, abs_tol=1e-12)
    for max_paths in (2, 5, 10, 20):
        found = check_exact(verify, scenario, framework="numpy", order="best", max_paths=max_paths)
        assert found.tv.low <= exact.low + 1e-12
        assert found.tv.high >= exact.high - 1e-12


def test_a_partial_run_can_prove_a_bias_but_no_absence() -> None:
    scenario = BlockScenario.from_rows(TARGET, DRAFT)
    verify, _ = FIRST_TOKEN_BUGS["accept everything"]
    partial = {"framework": "numpy", "order": "best", "max_paths": 10}
    assert check_exact(verify, scenario, **partial).lossless is False  # type: ignore[arg-type]
    assert check_exact(speculative_verify, scenario, **partial).lossless is None  # type: ignore[arg-type]


def test_the_short_form_takes_tensors_and_arrays() -> None:
    target, draft = rows(3, 1)
    assert exact_verify_tv(speculative_verify, target, draft).high < 1e-12
    tensors = torch.tensor(target), torch.tensor(draft)
    assert exact_verify_tv(speculative_verify, *tensors).high < 1e-12
    assert exact_verify_tv(verifier(correction=lambda p, q: p), target, draft).low > 1e-3


def test_a_verifier_without_a_generator_uses_the_global_one() -> None:
    def verify(target: Any, draft: Any, tokens: Any) -> Any:
        return speculative_verify(target, draft, tokens)

    assert exact_verify_tv(verify, *(torch.tensor(r) for r in rows(3, 1))).high < 1e-12


def test_what_cannot_be_traced_is_refused_by_name() -> None:
    def noisy(target: Any, draft: Any, tokens: Any, generator: Any) -> Any:
        return [int((target[0] + 0.01 * generator.normal(size=len(target[0]))).argmax())]

    with pytest.raises(UnsupportedRandomness, match=r"Generator\.normal at .*test_exact_blocks"):
        check_exact(noisy, BlockScenario.from_rows(TARGET, DRAFT), framework="numpy")


def test_unfit_rows_are_the_caller_s_mistake() -> None:
    with pytest.raises(InvalidInputError, match="target_probs"):
        BlockScenario.from_rows(TARGET[:1], DRAFT)
    with pytest.raises(InvalidInputError, match="draft_probs"):
        BlockScenario.from_rows(TARGET, DRAFT * 2)
    with pytest.raises(InvalidInputError, match="form"):
        exact_verify_tv(speculative_verify, TARGET, DRAFT, form="nonsense")
    with pytest.raises(InvalidInputError, match="framework"):
        exact_verify_tv(speculative_verify, TARGET, DRAFT, framework="jax")
