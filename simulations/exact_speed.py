"""How many paths a second the tracer explores: references and plain verifiers, numpy and torch.

Prints one line a verifier and size: paths, runs (fewer, where a draw was never looked at), CPU
seconds and paths a second; then, at a large vocabulary, the runs and milliseconds that the law of
one block of given drafts takes. Nothing is written: the figures are those of this machine.

Usage: python simulations/exact_speed.py [--vocab V] [--gamma N] [--large-vocab V]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from specverify.audit.rows import zipf
from specverify.exact.blocks import check_exact
from specverify.exact.calling import Framework
from specverify.exact.conformance import check_conformance
from specverify.exact.scenario import BlockScenario
from specverify.sampler.verify import speculative_verify


def plain_numpy(target: Any, draft: Any, tokens: Any, generator: Any) -> list[int]:
    """The rule as people write it, without checks, in numpy."""
    for place, token in enumerate(tokens):
        if not generator.random() < target[place, token] / draft[place, token]:
            residual = np.maximum(target[place] - draft[place], 0.0)
            last = generator.choice(len(residual), p=residual / residual.sum())
            return [*tokens[:place].tolist(), int(last)]
    return [*tokens.tolist(), int(generator.choice(len(target[-1]), p=target[-1]))]


def plain_torch(target: Any, draft: Any, tokens: Any, generator: Any) -> Any:
    """The rule as people write it, without checks, in torch."""
    places = torch.arange(len(tokens))
    uniforms = torch.rand(len(tokens), generator=generator, dtype=target.dtype)
    passed = uniforms < target[places, tokens] / draft[places, tokens]
    n = int(passed.int().cumprod(0).sum())
    last = target[n] if n == len(tokens) else (target[n] - draft[n]).clamp(min=0)
    return torch.cat([tokens[:n], torch.multinomial(last, 1, generator=generator)])


VERIFIERS: Mapping[str, tuple[Callable[..., Any], Framework]] = {
    "plain numpy": (plain_numpy, "numpy"),
    "plain torch": (plain_torch, "torch"),
    "speculative_verify, numpy": (speculative_verify, "numpy"),
    "speculative_verify, torch": (speculative_verify, "torch"),
}


def measure(name: str, vocab: int, gamma: int) -> str:
    """One line of the table."""
    verify, framework = VERIFIERS[name]
    rng = np.random.default_rng([vocab, gamma])
    rows = rng.dirichlet(np.ones(vocab), 2 * gamma + 1)
    scenario = BlockScenario.from_rows(rows[: gamma + 1], rows[gamma + 1 :])
    start = time.process_time()
    found = check_exact(verify, scenario, framework=framework)
    seconds = time.process_time() - start
    assert found.lossless
    law = found.law
    return f"{name:26} {law.paths:7} {law.runs:7} {seconds:8.2f} {law.paths / seconds:10.0f}"


def measure_large(name: str, vocab: int, gamma: int = 4, drafts: int = 8) -> str:
    """One line of the second table."""
    verify, framework = VERIFIERS[name]
    target, draft = (rows[:, 0] for rows in zipf(vocab)(np.random.default_rng(vocab), gamma + 1))
    generator = np.random.default_rng(gamma)
    start = time.process_time()
    found = check_conformance(
        verify, target, draft[:gamma], generator=generator, drafts=drafts, framework=framework
    )
    each = 1000 * (time.process_time() - start) / drafts
    assert found.conforms
    runs = max(law.paths for law in found.laws)
    return f"{name:26} {runs:7} {each:10.0f} {max(found.deviations):10.1e}"


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Measure the tracer.")
    parser.add_argument("--vocab", type=int, default=8, help="tokens of the vocabulary")
    parser.add_argument("--gamma", type=int, default=3, help="drafts in a block")
    parser.add_argument("--large-vocab", type=int, default=32_000, help="of the second table")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    for name in VERIFIERS:
        measure(name, 2, 1)  # imports and caches
    print(f"V = {options.vocab}, gamma = {options.gamma}")
    print(f"{'':26} {'paths':>7} {'runs':>7} {'CPU s':>8} {'paths/s':>10}")
    for name in VERIFIERS:
        print(measure(name, options.vocab, options.gamma), flush=True)
    print(f"V = {options.large_vocab}, gamma = 4, drafts given")
    print(f"{'':26} {'runs':>7} {'ms a draft':>10} {'deviation':>10}")
    for name in VERIFIERS:
        print(measure_large(name, options.large_vocab), flush=True)


if __name__ == "__main__":
    main()
