"""Torch under the tracer: draws, views, in-place writes, races, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from specverify.errors import UnsupportedRandomness
from specverify.exact import ReplayDivergence, enumerate_law
from specverify.stats.goodness import pooled_chi_square

PROBS = torch.tensor([0.2, 0.5, 0.0, 0.3], dtype=torch.float64)
LAW = {0: 0.2, 1: 0.5, 3: 0.3}
EDGES = torch.tensor([0.2, 0.7, 1.0], dtype=torch.float64)
GENERATOR = torch.Generator()


def uniforms(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, dtype=torch.float64, generator=GENERATOR)


def flat(outcome: Any) -> Any:
    while isinstance(outcome, tuple) and len(outcome) == 1:
        outcome = outcome[0]
    return outcome


def in_place() -> torch.Tensor:
    keys = torch.empty(2, 4, dtype=torch.float64)
    keys[1].exponential_()
    keys[0] = keys[1]
    return (PROBS / keys[0]).argmax()


CATEGORICAL: dict[str, Callable[[], Any]] = {
    "multinomial": lambda: torch.multinomial(PROBS, 1, generator=GENERATOR),
    "multinomial item": lambda: torch.multinomial(PROBS, 1).item(),
    "rows": lambda: torch.multinomial(PROBS.expand(2, 4), 1)[1],
    "distributions": lambda: torch.distributions.Categorical(PROBS).sample(),
    "distributions logits": lambda: torch.distributions.Categorical(logits=PROBS.log()).sample(),
    "searchsorted": lambda: torch.searchsorted(PROBS.cumsum(0), uniforms(1), right=True),
    "bucketize": lambda: torch.bucketize(uniforms(1), PROBS.cumsum(0)),
    "counted": lambda: (PROBS.cumsum(0) <= uniforms(1)).sum(),
    "exponential race": lambda: (PROBS / torch.empty(4).double().exponential_()).argmax(),
    "race in place": in_place,
    "gumbel": lambda: (PROBS.log() - torch.log(-torch.log(uniforms(4)))).argmax(),
    "top key": lambda: (PROBS.log() - (-uniforms(4).log()).log()).topk(1).indices,
    "largest key": lambda: (PROBS / torch.empty_like(PROBS).exponential_()).max(dim=-1)[1],
    "moved": lambda: torch.cat([torch.multinomial(PROBS, 1).repeat(2), torch.ones(1).long()])[1],
    "masked": lambda: torch.where(
        torch.tensor([True, False]), torch.multinomial(PROBS, 1).expand(2), torch.tensor(-1)
    )[0],
    "as tensor": lambda: torch.tensor([torch.multinomial(PROBS, 1).item(), 7])[0],
    "used as index": lambda: torch.arange(4)[torch.multinomial(PROBS, 1)],
    "gathered": lambda: torch.arange(4).gather(0, torch.multinomial(PROBS, 1)),
}


@pytest.mark.parametrize("name", CATEGORICAL)
def test_ways_to_draw_a_category(name: str) -> None:
    law = enumerate_law(lambda: CATEGORICAL[name]()).map(flat)
    found = {token: mass for token, mass in law.probabilities.items() if mass > 0}
    assert found.keys() == LAW.keys()
    for token, mass in LAW.items():
        assert math.isclose(found[token], mass, abs_tol=1e-14)


def _first(condition: torch.Tensor) -> bool:
    return bool(condition[0])


COINS: dict[str, Callable[[], Any]] = {
    "item": lambda: torch.rand(1, generator=GENERATOR).item() < 0.3,
    "float": lambda: float(torch.rand(1)) < 0.3,
    "float of a generator": lambda: float(uniforms(1)) < 0.3,
    "tensor": lambda: _first(uniforms(1) < 0.3),
    "if": lambda: [0, 1][1 if uniforms(1) < 0.3 else 0],
    "number on the left": lambda: _first(torch.tensor([0.3]).double() > uniforms(1)),
    "item against tensor": lambda: bool(uniforms(1).item() < torch.tensor(0.3).double()),
    "scaled": lambda: _first(uniforms(1) * 0.5 - 0.1 < 0.05),
    "one minus": lambda: _first(1 - uniforms(1) < 0.3),
    "log": lambda: _first(uniforms(1).log() < math.log(0.3)),
    "uniform_": lambda: _first(torch.empty(1).double().uniform_(-1, 1) < -0.4),
    "rand_like": lambda: _first(torch.rand_like(PROBS) < 0.3),
    "row of a view": lambda: bool(uniforms(3, 2).t()[1, 2] < 0.3),
    "clamped": lambda: _first(uniforms(1).clamp(1e-12, 0.9) < 0.3),
    "tolist": lambda: uniforms(2).tolist()[1] < 0.3,
    "numpy": lambda: uniforms(2).numpy()[1] < 0.3,
    "bernoulli": lambda: torch.bernoulli(torch.tensor(0.3).double()).item() == 1.0,
    "bernoulli_": lambda: torch.empty(1).bernoulli_(0.3).item() == 1.0,
    "randint": lambda: torch.randint(10, (1,)).item() < 3,
    "randperm": lambda: int(torch.randperm(5)[0]) < 1.5 and bool(uniforms(1) < 0.75),
    "exponential": lambda: torch.empty(1).exponential_().item() > -math.log(0.3),
    "distributions": lambda: _first(torch.distributions.Uniform(0.0, 2.0).sample((1,)) < 0.6),
}


@pytest.mark.parametrize("name", COINS)
def test_ways_to_flip_a_coin(name: str) -> None:
    law = enumerate_law(lambda: bool(COINS[name]()))
    assert math.isclose(law.probabilities[True], 0.3, abs_tol=1e-7)


def test_a_vector_of_tests_is_read_only_as_far_as_needed() -> None:
    """Three tests, four possible prefixes: the tests after a failure do not branch."""

    def draw() -> Any:
        passed = uniforms(3) < torch.tensor([0.5, 0.25, 0.5])
        return passed.int().cumprod(0).sum()

    law = enumerate_law(draw)
    assert law.runs == 4
    assert law.probabilities == {0: 0.5, 1: 0.375, 2: 0.0625, 3: 0.0625}


def test_unread_tokens_do_not_branch() -> None:
    law = enumerate_law(lambda: torch.multinomial(PROBS.expand(3, 4), 1).reshape(3))
    assert law.runs == 1
    assert law.paths == 27
    assert math.isclose(law.probabilities[1, 1, 3], 0.5 * 0.5 * 0.3, abs_tol=1e-16)


def test_an_unread_token_keeps_its_correlation() -> None:
    def draw() -> Any:
        token = torch.multinomial(PROBS, 1)
        return torch.cat([token, token])

    assert set(enumerate_law(draw).probabilities) == {(0, 0), (1, 1), (3, 3)}


def test_a_uniform_used_twice_keeps_its_correlation() -> None:
    def draw() -> Any:
        u = uniforms(1)
        return bool(u < 0.4), torch.searchsorted(EDGES, u)

    found = enumerate_law(draw).map(lambda outcome: (outcome[0], flat(outcome[1]))).probabilities
    assert found.keys() == {(True, 0), (True, 1), (False, 1), (False, 2)}
    for outcome, mass in {(True, 0): 0.2, (True, 1): 0.2, (False, 1): 0.3}.items():
        assert math.isclose(found[outcome], mass, abs_tol=1e-15)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torchscript_is_followed() -> None:
    @torch.jit.script
    def draw(probs: torch.Tensor) -> torch.Tensor:
        return (probs / torch.empty_like(probs).exponential_()).argmax()

    law = enumerate_law(lambda: draw(PROBS))
    assert math.isclose(law.probabilities[1], 0.5, abs_tol=1e-15)


def test_compiled_code_is_followed_as_written() -> None:
    @torch.compile(backend="eager")
    def draw(probs: torch.Tensor) -> torch.Tensor:
        return (probs / torch.empty_like(probs).exponential_()).argmax()

    law = enumerate_law(lambda: draw(PROBS))
    assert math.isclose(law.probabilities[1], 0.5, abs_tol=1e-15)


def test_uninitialised_memory_shows() -> None:
    def careless() -> Any:
        weights = torch.empty(3)
        weights[:2] = 0.5
        return torch.multinomial(weights, 1)

    law = enumerate_law(careless)
    assert list(law.exceptions.values()) == [1.0]


def _twins() -> Any:
    draft, verifier = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    return torch.rand(1, generator=draft) < 0.5, torch.rand(1, generator=verifier) < 0.5


def _reseeded() -> Any:
    first = torch.rand(1, generator=GENERATOR) < 0.5
    GENERATOR.manual_seed(GENERATOR.initial_seed() + 1)
    return first, torch.rand(1, generator=GENERATOR) < 0.5


def _spent() -> Any:
    keys = torch.rand(3)
    return keys.argmax(), keys[0] < 0.5


REFUSED: dict[str, Callable[[], Any]] = {
    "randn": lambda: torch.randn(2).argmax(),
    "normal": lambda: torch.empty(2).normal_().argmax(),
    "softmax": lambda: torch.softmax(torch.rand(3), -1).argmax(),
    "sum": lambda: torch.rand(3).sum() < 1,
    "product": lambda: torch.rand(1) * torch.rand(1) < 0.5,
    "random probabilities": lambda: torch.multinomial(torch.rand(3), 1),
    "returned": lambda: torch.rand(1),
    "global seed": lambda: (torch.manual_seed(0), torch.rand(1) < 0.5)[1],
    "reseeded": _reseeded,
    "two generators in one state": _twins,
    "noise after a race": _spent,
    "cast to an integer": lambda: (torch.rand(1) * 10).long(),
    "out": lambda: torch.rand(2, out=torch.empty(2)) < 0.5,
    "cat with out": lambda: torch.cat([torch.rand(1)], out=torch.empty(1)) < 0.5,
    "math": lambda: math.fsum([torch.rand(1).item(), 0.0]) < 0.5,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_understood_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedRandomness):
        enumerate_law(REFUSED[name])


def test_a_generator_built_inside_is_refused() -> None:
    """It starts in the same state in every call: its draws are constants."""
    with pytest.raises((UnsupportedRandomness, ReplayDivergence)):
        enumerate_law(lambda: torch.rand(1, generator=torch.Generator()) < 0.5)


def test_a_refusal_names_file_and_line() -> None:
    def noisy() -> Any:
        return torch.randn(1) < 0

    with pytest.raises(UnsupportedRandomness) as caught:
        enumerate_law(noisy)
    assert caught.value.location == f"{__file__}:{noisy.__code__.co_firstlineno + 1}"


def test_torch_is_put_back() -> None:
    before = (torch.Tensor.item, torch.Tensor.__float__, torch.tensor, torch.manual_seed)
    enumerate_law(lambda: torch.rand(1).item() < 0.5)
    with pytest.raises(UnsupportedRandomness):
        enumerate_law(lambda: torch.randn(1) < 0.5)
    after = (torch.Tensor.item, torch.Tensor.__float__, torch.tensor, torch.manual_seed)
    assert before == after
    assert math.isfinite(torch.rand(1).item())


def test_the_law_agrees_with_real_draws() -> None:
    """200,000 real draws of the same code; chi-square at level 1e-6, and a wrong law fails it."""
    weights = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)

    def draw(n: int, generator: torch.Generator) -> torch.Tensor:
        u = torch.rand(n, 1, dtype=torch.float64, generator=generator)
        noise = -torch.log(-torch.log(torch.rand(n, 4, dtype=torch.float64, generator=generator)))
        raced = (weights.log() + noise).argmax(-1)
        inverted = torch.searchsorted(weights.cumsum(0), (u - 0.25) / 0.75).reshape(n).clamp(max=3)
        return torch.where(u.reshape(n) < 0.25, raced, inverted)

    law = enumerate_law(lambda: draw(1, GENERATOR)).map(flat).probabilities
    n = 200_000
    real = draw(n, torch.Generator().manual_seed(20)).numpy()
    counts = np.bincount(real, minlength=4)
    probs = np.array([law[token] for token in range(4)])
    assert pooled_chi_square(counts, probs).p_value > 1e-6
    assert pooled_chi_square(counts, probs[::-1].copy()).p_value < 1e-6
