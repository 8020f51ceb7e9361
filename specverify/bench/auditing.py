"""Audit throughput: completions a second by form, exact paths and betting tokens a second."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from specverify.audit.config import AuditConfig, Budget
from specverify.audit.forms import Form
from specverify.audit.progress import Progress
from specverify.audit.run import audit
from specverify.audit.targets import resolve
from specverify.bench.engine import OwnEngine
from specverify.bench.processes import verdicts
from specverify.bench.timing import Job, Measurement, Size, Spread, alternate, exponent
from specverify.bench.verifiers import right
from specverify.errors import MissingDependencyError
from specverify.exact.blocks import check_exact
from specverify.exact.scenario import BlockScenario
from specverify.models.threads import one_thread
from specverify.stats.context import ContextBets
from specverify.stats.synthetic import zipf_pair

__all__ = ["auditing"]


def auditing(size: Size) -> Iterator[Measurement]:
    """Rates of one process, and seconds to the verdict on the command line."""
    for form in (Form.VERIFY, Form.BATCHED, Form.DECODE):
        yield _samples(form, size)
    yield _engines(size)
    yield _curve(size)
    yield _exact(size)
    yield _betting(size)
    yield from verdicts(size)


def _audited(form: Form, calls: int, target: Any = "reference") -> int:
    """Audit a target; the number of completions that were drawn."""
    done: dict[int, int] = {}

    def count(state: Progress) -> None:
        done[state.look] = max(done.get(state.look, 0), state.done)

    config = AuditConfig(
        form=form,
        mode="statistical",
        isolation="inline",
        budget=Budget(calls=calls),
        gammas=None if form is Form.GENERATE else (1, 2, 3, 4),
    )
    audit(target, config=config, progress=count)
    return sum(done.values())


def _samples(form: Form, size: Size) -> Measurement:
    calls = 50 if size.quick else 4000 if form is Form.VERIFY else 1000
    drawn = _audited(form, calls)
    seconds = alternate({"ours": lambda: _audited(form, calls)}, size.runs)["ours"]
    return Measurement(
        what=f"audit of the reference, form {form}, {calls} calls, judging included",
        unit="completions/s",
        sides={"ours": Spread.of([drawn / each for each in seconds])},
    )


def _engines(size: Size) -> Measurement:
    """Engines' calls draw several completions each."""
    calls = 2 if size.quick else 24
    targets: dict[str, Any] = {"ours, batched": OwnEngine()}
    with suppress(MissingDependencyError):
        found = resolve("transformers:gamma=4", form=Form.GENERATE)
        targets["transformers, assisted"] = found.implementation
    jobs: dict[str, Job] = {
        name: partial(_audited, Form.GENERATE, calls, target) for name, target in targets.items()
    }
    drawn = {name: _audited(Form.GENERATE, calls, target) for name, target in targets.items()}
    with one_thread():
        seconds = alternate(jobs, size.runs)
    return Measurement(
        what=f"audit of generation with the shipped pair, form generate, {calls} calls, law of"
        " each token and judging included",
        unit="completions/s",
        sides={
            name: Spread.of([drawn[name] / each for each in values])
            for name, values in seconds.items()
        },
    )


def _curve(size: Size) -> Measurement:
    budgets = (25, 50) if size.quick else (1000, 4000, 16_000)
    jobs: dict[str, Job] = {
        f"{calls} calls": partial(_audited, Form.VERIFY, calls) for calls in budgets
    }
    seconds = alternate(jobs, 3)
    sides = {name: Spread.of(values) for name, values in seconds.items()}
    slope = exponent(budgets, [side.median for side in sides.values()])
    return Measurement(
        what="cost of an audit against its calls",
        unit="s",
        sides=sides,
        note=f"fitted exponent {slope:.2f}; in theory at most 1",
    )


def _exact(size: Size) -> Measurement:
    vocab, gamma = (3, 1) if size.quick else (6, 2)
    rows = np.random.default_rng(vocab).dirichlet(np.ones(vocab), 2 * gamma + 1)
    scenario = BlockScenario.from_rows(rows[: gamma + 1], rows[gamma + 1 :])

    def trace() -> int:
        return int(check_exact(right, scenario, framework="torch").law.paths)

    paths = trace()
    seconds = alternate({"ours": trace}, size.runs, clock=time.process_time)["ours"]
    return Measurement(
        what=f"exact law of a plain torch verifier, V = {vocab}, gamma {gamma}, {paths} paths",
        unit="paths/s",
        sides={"ours": Spread.of([paths / each for each in seconds])},
    )


def _betting(size: Size) -> Measurement:
    rng = np.random.default_rng(0)
    target, draft = zipf_pair(128, rng)
    bets = ContextBets(target, draft)
    tokens = rng.choice(128, size=10**4 if size.quick else 10**7, p=target)

    def bet() -> None:
        bets.evidence(np.bincount(tokens, minlength=128))

    seconds = alternate({"ours": bet}, size.runs)["ours"]
    return Measurement(
        what="bets against one law, V = 128",
        unit="tokens/s",
        sides={"ours": Spread.of([len(tokens) / each for each in seconds])},
    )
