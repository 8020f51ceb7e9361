"""What must hold for every target, draft and block; laws are compared exactly, never sampled."""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specverify.distributions import (
    acceptance_rate,
    residual_distribution,
    total_variation,
)
from specverify.sampler.batched import verify_blocks_from_uniforms
from specverify.sampler.decode import speculative_decode
from specverify.strategies import blocks, distribution_pairs, distributions, uniforms
from specverify.theory.block_law import block_law
from specverify.theory.completion_law import completion_law

# Laws in quarters: every acceptance threshold and residual is a multiple of 1/12 then, and the
# midpoints of twelve cells stand for all uniforms.
QUARTERS = 4
GRID = (np.arange(12) + 0.5) / 12


@given(distribution_pairs())
def test_accept_or_resample_emits_the_target(pair) -> None:
    target, draft = pair
    rejection = 1 - acceptance_rate(target, draft)
    emitted = np.minimum(target, draft) + rejection * residual_distribution(target, draft)
    np.testing.assert_allclose(emitted, target, atol=1e-12)


@given(distribution_pairs())
def test_the_residual_is_a_distribution_above_the_draft_only(pair) -> None:
    target, draft = pair
    residual = residual_distribution(target, draft)
    assert residual.sum() == pytest.approx(1)
    if (target > draft).any():
        assert (residual[target <= draft] == 0).all()
        assert (residual[target > draft] > 0).all()
    else:
        np.testing.assert_array_equal(residual, target)


@given(distribution_pairs())
def test_the_acceptance_rate_lies_in_the_unit_interval_and_is_symmetric(pair) -> None:
    target, draft = pair
    rate = acceptance_rate(target, draft)
    assert -1e-12 <= rate <= 1 + 1e-12
    assert rate == pytest.approx(acceptance_rate(draft, target), abs=1e-12)
    assert rate == pytest.approx(1 - total_variation(draft, target), abs=1e-12)


def verify_one(block, drawn):
    gamma = len(block.draft_tokens)
    emitted, n_accepted = verify_blocks_from_uniforms(
        *(part[None] for part in block),
        accept_uniforms=drawn[None, :gamma],
        token_uniforms=drawn[None, gamma],
    )
    tokens = emitted[0][emitted[0] >= 0]
    return tokens, int(n_accepted[0])


@settings(max_examples=60)
@given(blocks(gamma=4), uniforms((5,)))
def test_between_one_and_gamma_plus_one_tokens(block, drawn) -> None:
    tokens, n_accepted = verify_one(block, drawn)
    assert 1 <= len(tokens) == n_accepted + 1 <= 5
    np.testing.assert_array_equal(tokens[:-1], block.draft_tokens[:n_accepted])
    assert block.target_probs[n_accepted, tokens[-1]] > 0


@settings(max_examples=60)
@given(blocks(gamma=3), uniforms((4,)))
def test_the_target_as_its_own_draft_accepts_everything(block, drawn) -> None:
    target = np.concatenate([block.draft_probs, block.target_probs[-1:]])
    assert verify_one(block._replace(target_probs=target), drawn)[1] == 3


@settings(max_examples=60)
@given(st.data(), blocks(vocab_size=4, gamma=2))
def test_permuting_the_vocabulary_permutes_the_law(data, block) -> None:
    order = np.asarray(data.draw(st.permutations(range(4))))
    law = block_law(block.target_probs, block.draft_probs)
    permuted = block_law(block.target_probs[:, order], block.draft_probs[:, order])
    renamed = {tuple(order[list(tokens)].tolist()): mass for tokens, mass in permuted.items()}
    assert renamed.keys() == law.keys()
    for tokens, mass in law.items():
        assert renamed[tokens] == pytest.approx(mass, abs=1e-12)


@settings(max_examples=60)
@given(st.data(), blocks(vocab_size=5, gamma=3), uniforms((4,)))
def test_permuting_the_vocabulary_leaves_acceptance_alone(data, block, drawn) -> None:
    order = np.asarray(data.draw(st.permutations(range(5))))
    renamed = block._replace(
        target_probs=block.target_probs[:, order],
        draft_probs=block.draft_probs[:, order],
        draft_tokens=np.argsort(order)[block.draft_tokens],
    )
    assert verify_one(renamed, drawn)[1] == verify_one(block, drawn)[1]


def quarters(vocab_size: int, count: int):
    """``count`` laws whose probabilities are multiples of a quarter."""
    cuts = st.lists(st.integers(0, vocab_size - 1), min_size=QUARTERS, max_size=QUARTERS)
    law = cuts.map(lambda tokens: np.bincount(tokens, minlength=vocab_size) / QUARTERS)
    return st.lists(law, min_size=count, max_size=count).map(np.stack)


def law_of(verify, target, draft):
    """Exact law of a block: every draft by its probability, every uniform by its twelve cells.

    ``target`` has shape ``(paths, gamma + 1, vocab)``: the rows may depend on the drafted path,
    in the order of ``itertools.product``; so may ``draft``, of shape ``(paths, gamma, vocab)``.
    """
    gamma, vocab = draft.shape[1:]
    paths = np.array(list(itertools.product(range(vocab), repeat=gamma)), dtype=np.int64)
    cells = np.array(list(itertools.product(GRID, repeat=gamma + 1)))
    emitted = verify(
        *(np.repeat(part, len(cells), axis=0) for part in (target, draft, paths)),
        np.tile(cells, (len(paths), 1)),
    )
    reach = np.take_along_axis(draft, paths[..., None], axis=-1)[..., 0].prod(axis=1)
    masses = np.repeat(reach / len(cells), len(cells))
    rows, where = np.unique(emitted, axis=0, return_inverse=True)
    totals = np.bincount(where.reshape(-1), weights=masses)
    return {
        tuple(row[row >= 0].tolist()): float(mass)
        for row, mass in zip(rows, totals, strict=True)
        if mass > 0
    }


def reference(target, draft, tokens, drawn):
    return verify_blocks_from_uniforms(
        target, draft, tokens, accept_uniforms=drawn[:, :-1], token_uniforms=drawn[:, -1]
    ).emitted


def resamples_from_the_target(target, draft, tokens, drawn):
    """A known bug: the correction comes from the target instead of the residual."""
    emitted = reference(target, draft, tokens, drawn)
    n_accepted = (emitted >= 0).sum(axis=1) - 1
    plain = verify_blocks_from_uniforms(
        target[np.arange(len(target)), n_accepted][:, None],
        draft[:, :0],
        tokens[:, :0],
        accept_uniforms=drawn[:, :0],
        token_uniforms=drawn[:, -1],
    ).emitted[:, 0]
    emitted[np.arange(len(target)), n_accepted] = plain
    return emitted


def distance(law, other) -> float:
    keys = law.keys() | other.keys()
    return 0.5 * sum(abs(law.get(key, 0.0) - other.get(key, 0.0)) for key in keys)


@settings(max_examples=25)
@given(quarters(3, 3), quarters(3, 2))
def test_the_exact_law_of_a_block(target, draft) -> None:
    ours = law_of(reference, np.stack([target] * 9), np.stack([draft] * 9))
    assert distance(ours, block_law(target, draft)) < 1e-12


def test_a_wrong_law_of_a_block_is_seen() -> None:
    target, draft = np.array([[0.75, 0.25], [0.5, 0.5]]), np.array([[0.25, 0.75]])
    laws = np.stack([target] * 2), np.stack([draft] * 2)
    assert distance(law_of(reference, *laws), block_law(target, draft)) < 1e-12
    biased = law_of(resamples_from_the_target, *laws)
    assert distance(biased, block_law(target, draft)) > 0.1


def completion(verify, target_table, draft_table, length):
    """Exact law of ``length`` tokens after token 0, block laws composed until there are enough."""
    vocab = len(target_table)
    paths = list(itertools.product(range(vocab), repeat=2))

    def block(last):
        contexts = [(last, *path) for path in paths]
        target = np.stack([[target_table[token] for token in context] for context in contexts])
        draft = np.stack([[draft_table[token] for token in context[:-1]] for context in contexts])
        return law_of(verify, target, draft)

    by_last = [block(last) for last in range(vocab)]
    law, unfinished = defaultdict(float), {(): 1.0}
    while unfinished:
        longer = defaultdict(float)
        for tokens, mass in unfinished.items():
            for emitted, more in by_last[tokens[-1] if tokens else 0].items():
                grown = (*tokens, *emitted)
                done = len(grown) >= length
                (law if done else longer)[grown[:length]] += mass * more
        unfinished = longer
    return law


def target_law(table, length):
    joint = completion_law(lambda tokens: table[tokens[-1]], [0], length, len(table))
    return {index: float(mass) for index, mass in np.ndenumerate(joint)}


@settings(max_examples=25)
@given(quarters(2, 2), quarters(2, 2))
def test_the_exact_law_of_a_completion_is_the_targets(target_table, draft_table) -> None:
    ours = completion(reference, target_table, draft_table, 4)
    assert distance(ours, target_law(target_table, 4)) < 1e-12


def test_a_wrong_law_of_a_completion_is_seen() -> None:
    target_table, draft_table = np.array([[0.75, 0.25], [0.5, 0.5]]), np.full((2, 2), 0.5)
    biased = completion(resamples_from_the_target, target_table, draft_table, 4)
    assert distance(biased, target_law(target_table, 4)) > 0.05


@settings(max_examples=30)
@given(distributions(4), st.integers(1, 5), st.integers(0, 12), st.booleans(), st.integers(0, 99))
def test_a_completion_has_the_length_asked_for(law, gamma, length, shrink, seed) -> None:
    draft = np.full(4, 0.25)
    tokens, trace = speculative_decode(
        np.array([0]),
        lambda _: law,
        lambda _: draft,
        gamma,
        length,
        np.random.default_rng(seed),
        shrink_gamma=shrink,
    )
    assert len(tokens) == length == trace.kept
    assert trace.passes <= length
    assert (law[tokens] > 0).all()
