"""Sampling an engine: prompts and settings in turn, each token placed in its conditional law."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specverify.audit.arms import count_arms
from specverify.audit.calls import guarded
from specverify.audit.drafts import count_drafts
from specverify.audit.explanations import (
    AS_TOLD,
    EXPLANATIONS,
    draft_variants,
    expected_passes,
)
from specverify.audit.forms import Completions, Form
from specverify.audit.handed import count_handed, filled
from specverify.audit.observer import Observer
from specverify.audit.ratios import count_ratios
from specverify.audit.sent_settings import count_settings
from specverify.audit.tally import Tally
from specverify.audit.targets import Target
from specverify.errors import ImplementationError, InvalidEmissionError, InvalidInputError
from specverify.warping import SamplingParams

__all__ = [
    "BINS",
    "MICRO",
    "ORDERS",
    "PAIR_BINS",
    "SMALLEST",
    "TRACED_PROMPT",
    "EngineSampler",
    "EngineScenario",
    "engine_case",
    "engine_scenarios",
]

BINS = 16
"""Cells of the probability-integral transform."""

ORDERS = ("rank", "id", "ratio")
"""Orders of the vocabulary in which it is taken: one order alone can miss a bug."""

MICRO = 1_000_000
"""Expectations are summed in millionths: a tally holds integers."""

PAIR_BINS = 4
"""Cells of each of two neighbouring tokens."""

_TEXTS = ("To be, or not to be", "My lord, I ", "What news from ")
_BATCH = 8


@dataclass(frozen=True, kw_only=True, eq=False)
class EngineScenario:
    """One sampling setting, over several prompts.

    Attributes:
        name: Name.
        purpose: Why it is here.
        sampling: Temperature and filters.
        length: New tokens of a completion.
        coarse: Looked at for gross defects alone.
        gamma: Unknown here; the engine tells.
        available: Completions on record; None where an engine draws as many as are wanted.
        traced: Whether its law is enumerated, on the smallest model that the engine runs.
        form: ``generate``.
    """

    name: str
    purpose: str
    sampling: SamplingParams = field(default_factory=SamplingParams)
    length: int = 12
    coarse: bool = False
    gamma: int = 0
    available: int | None = None
    traced: bool = False
    form: Form = Form.GENERATE

    def params(self) -> dict[str, object]:
        """Record for ``result.json``."""
        return {
            "scenario": self.name,
            "purpose": self.purpose,
            "length": self.length,
            "temperature": self.sampling.temperature,
            "top_k": self.sampling.top_k,
            "top_p": self.sampling.top_p,
            "min_p": self.sampling.min_p,
        }


SMALLEST = EngineScenario(
    name="smallest",
    purpose="every completion of a pair of a few tokens, without a sample",
    length=3,
    coarse=True,
    traced=True,
)
"""For engines that can be traced."""

TRACED_PROMPT = (1, 0)


def engine_scenarios(suite: str) -> tuple[EngineScenario, ...]:
    """The settings that an engine is run in."""
    default = (
        EngineScenario(name="plain", purpose="temperature 1, no filter", coarse=True),
        EngineScenario(
            name="filtered",
            purpose="temperature, top-k, top-p",
            sampling=SamplingParams(temperature=0.8, top_k=40, top_p=0.9),
            coarse=True,
        ),
    )
    # An engine's token costs milliseconds: the audit's own bound is for the thorough suite.
    thorough = (
        EngineScenario(name="long", purpose="temperature 1, many passes", length=24),
        EngineScenario(
            name="hot", purpose="temperature 1.5", sampling=SamplingParams(1.5), coarse=True
        ),
        EngineScenario(
            name="greedy", purpose="temperature 0", sampling=SamplingParams(0.0), coarse=True
        ),
        EngineScenario(name="one-token", purpose="one token asked", length=1, coarse=True),
    )
    return default if suite == "default" else default + thorough


class EngineSampler:
    """Runs one setting of an engine.

    Args:
        target: The engine.
        scenario: The setting.
        observer: Told of every call.

    Raises:
        InvalidInputError: If the engine has neither a law that its completions could be compared
            with nor plain decoding of its own.
    """

    def __init__(self, target: Target, scenario: EngineScenario, observer: Observer) -> None:
        engine = target.implementation
        self._engine: Any = engine.smallest() if scenario.traced else engine
        self._scenario = scenario
        self._observer = observer
        self._law = self._engine.reference()
        if self._law is None and not hasattr(self._engine, "sample_plain"):
            problem = "has no target law to compare with, and no sample_plain to compare with"
            raise InvalidInputError("target", f"{target.name} {problem}")
        info = self._engine.describe()
        if info.longest is not None:
            self._scenario = replace(scenario, length=min(scenario.length, info.longest))
        self._gamma: int | None = info.gamma
        self._vocab: int | None = info.vocab_size
        self._prefill_emits = bool(info.prefill_emits)
        self._prompts = [list(TRACED_PROMPT)] if scenario.traced else _prompts(self._engine)
        self.outcomes: list[tuple[int, ...]] = []
        self._calls = 0

    def run(self, n: int, seeds: np.random.SeedSequence, *, probe: bool = False) -> Tally:
        """Draw about ``n`` completions, prompts in turn.

        Args:
            n: Number of completions.
            seeds: Source of the engine's seeds and of the transform's uniforms.
            probe: Whether to ask for one seed twice, before sampling.

        Returns:
            The counts; with ``error`` where the engine misbehaved.
        """
        tally, started, self._calls = Tally(), time.perf_counter(), 0
        own, others = seeds.spawn(2)
        rng = np.random.default_rng(own)
        words = [int(w >> 33) for w in others.generate_state(n // _BATCH + 2, np.uint64)]
        try:
            if probe:
                self._probe(tally, words[-1])
            for number in range(0, n, _BATCH):
                which, size = number // _BATCH % len(self._prompts), min(_BATCH, n - number)
                drawn = self._call(self._prompts[which], size, words[number // _BATCH])
                if self._law is not None:
                    self._count(tally, self._prompts[which], drawn, rng)
                    continue
                # A seed of its own: samples that share randomness would agree for that reason.
                other = int(rng.integers(1 << 31))
                plain = self._call(self._prompts[which], size, other, plain=True)
                place = (which, len(self._prompts))
                count_arms(tally, other, place, (drawn.tokens, plain.tokens))
        except ImplementationError as error:
            tally.fail(error)
        tally.table("calls", (1,))[0] += self._calls
        tally.seconds = time.perf_counter() - started
        return tally

    def _call(self, prompt: list[int], n: int, seed: int, *, plain: bool = False) -> Completions:
        scenario = self._scenario
        arguments = (list(prompt), n, scenario.length, scenario.sampling, seed)
        case = {"scenario": scenario.name, "prompt": prompt, "n": n, "seed": seed}
        self._calls += 1
        self._observer.begin((n, seed, *prompt))
        try:
            sample = self._engine.sample_plain if plain else self._engine.sample
            drawn = guarded(lambda: sample(*arguments))
            self._observer.end()
            _check(drawn, n, scenario.length, self._vocab)
        except ImplementationError as error:
            self._observer.end()
            error.case = error.case or case
            raise
        assert isinstance(drawn, Completions)
        return drawn

    def _plain(self, prompt: list[int], tokens: NDArray[np.int64]) -> NDArray[np.float64]:
        plain: NDArray[np.float64] = self._law.probs(prompt, tokens, SamplingParams())
        return plain

    def _probe(self, tally: Tally, seed: int) -> None:
        answers = [self._call(self._prompts[0], 2, seed).tokens.tolist() for _ in range(2)]
        tally.table("repeats", (2,))[int(answers[0] != answers[1])] += 1
        if answers[0] != answers[1]:
            tally.note("not-reproducible", {"seed": seed, "answers": answers})

    def _count(
        self, tally: Tally, prompt: list[int], drawn: Completions, rng: np.random.Generator
    ) -> None:
        tokens = np.asarray(drawn.tokens, dtype=np.int64)
        if self._scenario.traced:
            self.outcomes += [tuple(int(i) for i in row[row >= 0]) for row in tokens]
        target = self._law.probs(prompt, tokens, self._scenario.sampling)
        count_drafts(tally, drawn)
        count_settings(
            tally, tokens, target, self._scenario.sampling, lambda: self._plain(prompt, tokens)
        )
        draft = None
        if hasattr(self._engine, "draft_probs"):
            draft = self._engine.draft_probs(prompt, tokens, self._scenario.sampling)
        scored = draft
        if draft is None and drawn.handed is not None:
            scored = filled(target, tokens, drawn.handed)
        count_transforms(tally, tokens, target, scored, rng)
        if scored is not None:
            count_ratios(tally, tokens, target, scored)
        if drawn.handed is not None:
            count_handed(tally, tokens, (target, draft), drawn.handed, rng)
        if draft is not None and drawn.passes is not None and self._gamma is not None:
            plain = self._engine.draft_probs(prompt, tokens, SamplingParams())
            drafts = draft_variants(draft, plain, self._scenario.sampling)
            expected = expected_passes(
                tokens, target, drafts, self._gamma, prefill_emits=self._prefill_emits
            )
            count_passes(tally, tokens, (target, drafts[AS_TOLD]), drawn.passes, expected)
            tally.table("gamma", (self._gamma + 1,))[self._gamma] += len(tokens)


def count_transforms(
    tally: Tally,
    tokens: NDArray[np.int64],
    target: NDArray[np.float64],
    draft: NDArray[np.float64] | None,
    rng: np.random.Generator,
) -> None:
    """Count the randomised probability-integral transform of every token, in several orders.

    Under the target's law the transform is uniform whatever came before, so positions, prompts
    and contexts may be pooled.

    Args:
        tally: Where to count.
        tokens: Completions, shape ``(n, length)``, padded with -1.
        target: Their conditional laws, shape ``(n, length, vocab)``.
        draft: The draft's, for the order by ratio; None leaves that order out.
        rng: Source of the randomisation.
    """
    n, length = tokens.shape
    drawn = tokens >= 0
    ids = np.maximum(tokens, 0)[..., None]
    mass = np.take_along_axis(target, ids, axis=-1)[..., 0]
    counts = tally.table("transform", (length, len(ORDERS), BINS))
    pairs = tally.table("transform-pairs", (len(ORDERS), PAIR_BINS, PAIR_BINS))
    for which, keys in enumerate(_orders(target, draft)):
        key = np.take_along_axis(keys, ids, axis=-1)
        below = np.sum(np.where(keys < key, target, 0.0), axis=-1)
        place = np.clip(below + mass * rng.random((n, length)), 0.0, 1 - 1e-12)
        for position in range(length):
            cells = (place[drawn[:, position], position] * BINS).astype(np.int64)
            counts[position, which] += np.bincount(cells, minlength=BINS)
        coarse = (place * PAIR_BINS).astype(np.int64)
        both = drawn[:, 1:]
        np.add.at(pairs[which], (coarse[:, :-1][both], coarse[:, 1:][both]), 1)
    impossible = drawn & (mass == 0)
    tally.table("impossible", (length,))[...] += impossible.sum(axis=0)
    for row, position in np.argwhere(impossible)[:1]:
        case = {"completion": tokens[row].tolist(), "position": int(position)}
        tally.note("impossible", case)


def count_passes(
    tally: Tally,
    tokens: NDArray[np.int64],
    laws: tuple[NDArray[np.float64], NDArray[np.float64]],
    passes: NDArray[np.int64],
    expected: Iterable[tuple[float, float]],
) -> None:
    """Count passes, and what each explanation expects of these very texts.

    Args:
        tally: Where to count.
        tokens: Completions, shape ``(n, length)``, padded with -1.
        laws: Target's and draft's conditional laws as told, each ``(n, length, vocab)``.
        passes: Passes of each completion.
        expected: Mean and variance of the passes by explanation.
    """
    drawn = tokens >= 0
    sums = tally.table("passes-expected", (len(EXPLANATIONS), 2))
    for which, moments in enumerate(expected):
        sums[which] += np.rint(np.array(moments) * MICRO).astype(np.int64)
    overlap = np.minimum(*laws).sum(axis=-1)[drawn]
    measured = tally.table("passes", (4,))
    overlap_micro = round(float(overlap.sum()) * MICRO)
    measured += np.array([passes.sum(), drawn.sum(), overlap_micro, 0])


def _orders(
    target: NDArray[np.float64], draft: NDArray[np.float64] | None
) -> list[NDArray[np.float64]]:
    """Sorting keys without ties, one array for each order."""
    vocab = target.shape[-1]
    tie = np.arange(vocab)

    def ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
        order = np.argsort(values, axis=-1, kind="stable")
        placed = np.empty_like(order)
        np.put_along_axis(placed, order, np.broadcast_to(tie, order.shape), axis=-1)
        return placed.astype(np.float64)

    found = [ranks(-target), np.broadcast_to(tie.astype(np.float64), target.shape)]
    if draft is not None:
        found.append(ranks(target / np.maximum(target + draft, 1e-300)))
    return found


def _check(drawn: Any, n: int, length: int, vocab: int | None) -> None:
    if not isinstance(drawn, Completions):
        raise InvalidEmissionError(f"sample returned {type(drawn).__name__}, not Completions")
    if drawn.tokens.shape != (n, length):
        raise InvalidEmissionError(
            f"sample returned tokens of shape {drawn.tokens.shape}, asked for {(n, length)}"
        )
    if int(drawn.tokens.min()) < -1:
        raise InvalidEmissionError(f"emitted id {int(drawn.tokens.min())}")
    if vocab is not None and int(drawn.tokens.max()) >= vocab:
        raise InvalidEmissionError(f"emitted id {int(drawn.tokens.max())} outside [0, {vocab})")
    ended = drawn.tokens < 0
    if (ended[:, :-1] & ~ended[:, 1:]).any():
        raise InvalidEmissionError("emitted a token after the padding that marks the end")


def _prompts(engine: Any) -> list[list[int]]:
    if hasattr(engine, "prompts") and (prompts := engine.prompts()) is not None:
        return [list(map(int, prompt)) for prompt in prompts]
    if hasattr(engine, "encode"):
        try:
            return [list(map(int, engine.encode(text))) for text in _TEXTS]
        except InvalidInputError:
            pass  # no tokeniser: ids are as good
    vocab = engine.describe().vocab_size or 2
    rng = np.random.default_rng(0)
    return [rng.integers(vocab, size=size).tolist() for size in (1, 3, 8)]


def engine_case(scenario: EngineScenario, note: Sequence[int]) -> dict[str, Any]:
    """The input of a call from the observer's note of it."""
    n, seed, *prompt = note
    return {"scenario": scenario.name, "prompt": prompt, "n": n, "seed": seed}
