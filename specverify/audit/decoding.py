"""Sampling a decoder: whole loops over step functions whose every law is known."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from specverify._arrays import to_numpy
from specverify.audit.calls import guarded, invoke, read_tokens, split_result, to_framework
from specverify.audit.chains import Chain
from specverify.audit.checks.drafted import DRAFTED
from specverify.audit.counting import Round, count_completions, count_rounds
from specverify.audit.forms import Framework
from specverify.audit.observer import Observer
from specverify.audit.randomness import make_generator, seed_global_generators
from specverify.audit.scenarios import Scenario
from specverify.audit.signatures import takes
from specverify.audit.tally import Tally
from specverify.audit.targets import Target
from specverify.errors import ImplementationError, InputMutatedError, InvalidEmissionError

__all__ = ["EOS", "DecodeSampler", "decode_case", "prompt_of", "step_functions"]

EOS = "eos_token_id"
"""Parameter through which a decoder is told which token ends a completion."""

_PROBED_CALLS = 8


class DecodeSampler:
    """Runs one scenario of the decode form.

    Args:
        target: The implementation.
        scenario: The rows, the same at every position.
        observer: Told of every call.

    Attributes:
        outcomes: Completions of the last run.
    """

    def __init__(self, target: Target, scenario: Scenario, observer: Observer) -> None:
        self._target = target
        self._scenario = scenario
        self._observer = observer
        models = scenario.models or scenario.chain
        self._steps = step_functions(models, target.framework)
        self._more = {} if scenario.eos is None else {EOS: scenario.eos}
        self._calls = 0
        self.outcomes: list[tuple[int, ...]] = []

    def run(self, n: int, seeds: np.random.SeedSequence, *, probe: bool = False) -> Tally:
        """Decode ``n`` completions.

        Args:
            n: Number of completions.
            seeds: Source of the implementation's randomness.
            probe: Whether to look for answers that a seed does not fix, before sampling.

        Returns:
            The counts; with ``error`` where the implementation misbehaved, and everything that
            was sampled before.
        """
        tally, started, self._calls = Tally(), time.perf_counter(), 0
        if self._more and not takes(self._target.implementation, EOS):
            tally.note("skipped", {"reason": f"it has no parameter {EOS}"})
            return tally
        words = seeds.generate_state(2 + _PROBED_CALLS, np.uint64)
        first, second, *probes = (int(word >> 1) for word in words)
        scenario = self._scenario
        completions: list[list[int]] = []
        rounds: list[Round] = []
        try:
            if probe:
                self._probe(tally, probes)
            generator = make_generator(self._target.framework, first)
            seed_global_generators(second)
            for number in range(n):
                tokens, trace = self._call(number, generator)
                completions.append(tokens)
                if scenario.eos is None:
                    self._read_trace(tally, tokens, trace, rounds)
        except ImplementationError as error:
            tally.fail(error)
        self.outcomes = [tuple(tokens) for tokens in completions]
        count_completions(tally, self._scenario, completions)
        count_rounds(tally, self._scenario, rounds)
        tally.table("calls", (1,))[0] += self._calls
        tally.seconds = time.perf_counter() - started
        return tally

    def _call(self, number: int, generator: Any) -> tuple[list[int], Any]:
        scenario = self._scenario
        prompt = to_framework(prompt_of(scenario), self._target.framework)
        arguments = (prompt, *self._steps, scenario.gamma, scenario.length)
        self._calls += 1
        self._observer.begin((number,))
        try:
            call = partial(invoke, self._target, arguments, generator, **self._more)
            result = guarded(call, self._target)
            self._observer.end()
            emitted, trace = split_result(result)
            tokens = self._completion(emitted)
            if to_numpy(prompt).tolist() != prompt_of(scenario):
                raise InputMutatedError("wrote into its argument prompt")
        except ImplementationError as error:
            self._observer.end()
            error.case = error.case or decode_case(scenario, (number,))
            raise
        return tokens, trace

    def _completion(self, emitted: Any) -> list[int]:
        asked = self._scenario.length
        most = asked + len(prompt_of(self._scenario)) + self._scenario.gamma + 1
        tokens = read_tokens(emitted, most, self._scenario.vocab_size)
        eos = self._scenario.eos
        if eos is not None and len(tokens) < asked and tokens[-1] == eos:
            # Padded with the end: the chain stays there, so that whatever follows it is seen.
            return tokens + [eos] * (asked - len(tokens))
        if len(tokens) != asked:
            prompt = prompt_of(self._scenario)
            longer = len(tokens) == asked + len(prompt) and tokens[: len(prompt)] == prompt
            hint = "; the prompt seems to be included" if longer else ""
            if eos in tokens[:-1]:
                hint = "; tokens follow the one that ends the text"
            raise InvalidEmissionError(f"returned {len(tokens)} tokens for {asked} asked{hint}")
        return tokens

    def _read_trace(self, tally: Tally, tokens: list[int], trace: Any, rounds: list[Round]) -> None:
        """Keep the rounds whose end the length asked for could not cut."""
        entries = _entries(trace)
        if entries is None:
            return
        scenario, chain = self._scenario, self._scenario.chain
        start, context = 0, chain.start
        told = [token for _, _, emitted in entries for token in emitted]
        if _without_first(told, tokens):  # the prompt's own pass gave it: no round did
            start, context = 1, chain.after(context, tokens[0])
            told = [tokens[0], *told]
        matches = told[: len(tokens)] == tokens
        tally.table("trace", (2,))[int(not matches)] += 1
        if not matches:
            tally.note("trace", {"tokens": tokens, "emitted_by_trace": told})
        known = range(chain.vocab_size)
        for proposed, accepted, emitted in entries:
            whole = all(token in known for token in (*proposed, *emitted))
            if not whole or len(emitted) > scenario.gamma + 1:
                return  # no round of this loop: where the next one starts is not known
            prefill = not proposed and not start
            if scenario.length - start > scenario.gamma and not prefill:
                tally.table(DRAFTED, (2,))[int(len(proposed) != scenario.gamma)] += 1
                if len(proposed) == scenario.gamma:
                    rounds.append((context, proposed, emitted, accepted))
            start += len(emitted)
            context = reduce(chain.after, emitted, context)

    def _probe(self, tally: Tally, seeds: Sequence[int]) -> None:
        repeats = tally.table("repeats", (2,))
        for number, seed in enumerate(seeds):
            answers = []
            for _ in range(2):
                seed_global_generators(seed)
                generator = make_generator(self._target.framework, seed)
                answers.append(self._call(number, generator)[0])
            repeats[int(answers[0] != answers[1])] += 1
            if answers[0] != answers[1]:
                case = decode_case(self._scenario, (number,))
                tally.note("not-reproducible", case | {"answers": answers})


def decode_case(scenario: Scenario, note: Sequence[int]) -> dict[str, Any]:
    """The input of a call, JSON-compatible, from the observer's note of it."""
    case: dict[str, Any] = {
        "scenario": scenario.name,
        "prompt": prompt_of(scenario),
        "gamma": scenario.gamma,
        "max_new_tokens": scenario.length,
        "call": next(iter(note), None),
    }
    if scenario.vocab_size <= 64:
        case["target_table"] = scenario.chain.target[0].tolist()
        case["draft_table"] = scenario.chain.draft[0].tolist()
    return case


def prompt_of(scenario: Scenario) -> list[int]:
    """Tokens before a completion."""
    chain, vocab = scenario.chain, scenario.vocab_size
    digits = [chain.start // vocab**i % vocab for i in range(max(1, chain.order))]
    # One token more than matters: a loop that looks at the first is seen.
    return [vocab - 1, *digits[::-1]]


def step_functions(models: Chain, framework: Framework) -> tuple[Callable[[Any], Any], ...]:
    """The step functions of the target and of the draft: copies of the row after a text.

    A text that is shorter than the models look back is padded on the left with token 0, as
    :class:`specverify.TabularModel` does it.

    Args:
        models: Rows, the same at every position.
        framework: What they are handed over as.
    """
    target, draft = (to_framework(side[0], framework) for side in (models.target, models.draft))
    return _step(models, target, "target_step"), _step(models, draft, "draft_step")


def _step(models: Chain, table: Any, name: str) -> Callable[[Any], Any]:
    back = max(1, models.order)

    def step(tokens: Any) -> Any:
        ids = to_numpy(tokens).reshape(-1)
        recent = [int(token) for token in ids[-back:]]
        if not recent or not all(0 <= token < models.vocab_size for token in recent):
            raise InvalidEmissionError(f"{name} was handed the context {ids.tolist()}")
        # Indexing with a list copies: the table stays as it is.
        return table[[reduce(models.after, recent, 0)]][0]

    return step


def _entries(trace: Any) -> list[tuple[list[int], int, list[int]]] | None:
    """``(proposed, n_accepted, emitted)`` of each iteration, where the trace tells."""
    if trace is None or not hasattr(trace, "__iter__"):
        return None
    entries = []
    for entry in trace:
        values = [_field(entry, name) for name in ("proposed", "n_accepted", "emitted")]
        if any(value is None for value in values):
            return None
        proposed, accepted, emitted = (to_numpy(value) for value in values)
        if not proposed.ndim or not emitted.ndim or accepted.size != 1:
            return None  # numbers of tokens, or flags: not what a trace holds
        entries.append((_ids(proposed), int(accepted.item()), _ids(emitted)))
    return entries


def _field(entry: Any, name: str) -> Any:
    return entry.get(name) if isinstance(entry, Mapping) else getattr(entry, name, None)


def _without_first(told: list[int], tokens: list[int]) -> bool:
    """Whether a trace tells all tokens but the first one."""
    rest = tokens[1:]
    return told[: len(tokens)] != tokens and told[: len(rest)] == rest and bool(rest or not told)


def _ids(values: Any) -> list[int]:
    return [int(value) for value in to_numpy(values).reshape(-1)]
