"""Engines: a small one whose laws are tables, right and wrong."""

from __future__ import annotations

import numpy as np
import pytest

from specverify.audit.forms import Completions, EngineInfo
from specverify.bugs import ZOO
from specverify.errors import InvalidInputError
from specverify.models.tabular import TabularModel
from specverify.results import Verdict
from specverify.sampler.decode import speculative_decode
from specverify.warping import warp_probs

TARGET = TabularModel.random(12, 1, np.random.default_rng(1))
DRAFT = TARGET.perturbed(np.random.default_rng(2), 0.5)
GAMMA = 3


class Law:
    def __init__(self, model: TabularModel) -> None:
        self._model = model

    def probs(self, prompt, tokens, sampling):
        before = np.column_stack([np.full(len(tokens), prompt[-1]), tokens[:, :-1]])
        return warp_probs(self._model.table[np.maximum(before, 0)], sampling)


class Engine:
    """Speculative decoding of two tables; ``warm`` forgets the sampling settings of the draft."""

    def __init__(self, *, forgets: bool = False, leaks: float = 0.0) -> None:
        self._forgets, self._leaks = forgets, leaks

    def describe(self) -> EngineInfo:
        return EngineInfo(name="tables", version="1", vocab_size=12, gamma=GAMMA)

    def reference(self):
        return Law(TARGET)

    def draft_probs(self, prompt, tokens, sampling):
        return Law(DRAFT).probs(prompt, tokens, sampling)

    def sample(self, prompt, n, max_new_tokens, sampling, seed):
        rng = np.random.default_rng(seed)

        def step(model, warps=True):
            def law(context):
                row = model.next_probs(context)
                return warp_probs(row, sampling) if warps else row

            return law

        target = step(TARGET, not self._forgets)
        if self._leaks:
            mixed = TabularModel((1 - self._leaks) * TARGET.table + self._leaks * DRAFT.table)
            target = step(mixed)
        runs = [
            speculative_decode(np.array(prompt), target, step(DRAFT), GAMMA, max_new_tokens, rng)
            for _ in range(n)
        ]
        return Completions(
            tokens=np.array([tokens for tokens, _ in runs], dtype=np.int64),
            passes=np.array([trace.passes for _, trace in runs], dtype=np.int64),
        )


def test_a_right_engine_passes(small_audit) -> None:
    result = small_audit(Engine())
    assert result.verdict is Verdict.PASS
    assert result.summary.efficiency is Verdict.PASS
    assert result.summary.findings == ()
    row = result.acceptance["plain"]
    assert row["expected_low"] <= row["tokens_per_pass"] <= row["expected_high"]
    assert row["gamma"] == GAMMA
    assert abs(row["iid_tokens_per_pass"] - row["expected_tokens_per_pass"]) > 1e-3


def test_settings_that_the_target_forgets_are_seen(small_audit) -> None:
    result = small_audit(Engine(forgets=True))
    assert result.verdict is Verdict.FAIL
    assert {c.name for c in result.checks if c.verdict is Verdict.FAIL} >= {"token[filtered]"}
    assert not any(c.name == "token[plain]" and c.verdict is Verdict.FAIL for c in result.checks)


def test_a_leak_of_the_draft_into_the_target_is_seen(small_audit) -> None:
    result = small_audit(Engine(leaks=0.5), tv=0.02)
    assert result.verdict is Verdict.FAIL


class Imprecise(Engine):
    """Draws the target token by token, says that its arithmetic is rough, and reuses uniforms."""

    def __init__(self, *, reuses: bool, model: TabularModel = TARGET) -> None:
        super().__init__()
        self._reuses, self._model = reuses, model

    def describe(self) -> EngineInfo:
        return EngineInfo(name="tables", version="1", vocab_size=12, tolerance=2e-3)

    def reference(self):
        return Law(self._model)

    def sample(self, prompt, n, max_new_tokens, sampling, seed):
        rng = np.random.default_rng(seed)
        tokens = np.zeros((n, max_new_tokens), dtype=np.int64)
        law, uniforms = Law(self._model), rng.random((n, max_new_tokens))
        if self._reuses:
            uniforms[:, 1::2] = uniforms[:, 0::2]
        for position in range(max_new_tokens):
            rows = law.probs(prompt, tokens, sampling)[:, position].cumsum(axis=1)
            tokens[:, position] = (rows < uniforms[:, position, None]).sum(axis=1)
        return Completions(tokens=np.minimum(tokens, 11))


@pytest.mark.parametrize("reuses", [False, True])
def test_dependent_tokens_are_seen_in_spite_of_a_tolerance(small_audit, reuses) -> None:
    result = small_audit(Imprecise(reuses=reuses))
    failed = {check.name for check in result.checks if check.verdict is Verdict.FAIL}
    assert ("joint[plain]" in failed) is reuses
    assert result.summary.law is (Verdict.FAIL if reuses else Verdict.PASS)


END = 5
ENDING = TabularModel(0.7 * TARGET.table + 0.3 * np.eye(12)[END])


class Ending(Imprecise):
    """Its texts end at a token that has three tenths of every law at least."""

    def __init__(self, *, reuses: bool, tolerance: float) -> None:
        super().__init__(reuses=reuses, model=ENDING)
        self._tolerance = tolerance

    def describe(self) -> EngineInfo:
        return EngineInfo(
            name="tables", version="1", vocab_size=12, tolerance=self._tolerance, eos=END
        )

    def sample(self, prompt, n, max_new_tokens, sampling, seed):
        tokens = super().sample(prompt, n, max_new_tokens, sampling, seed).tokens
        ended = np.cumsum(tokens == END, axis=1) - (tokens == END) > 0
        return Completions(tokens=np.where(ended, -1, tokens))


@pytest.mark.parametrize("tolerance", [0.0, 2e-3])
@pytest.mark.parametrize("reuses", [False, True])
def test_texts_that_end_are_no_dependence(small_audit, reuses, tolerance) -> None:
    """The token that ends a text has no successor, so that pairs hold fewer of it."""
    result = small_audit(Ending(reuses=reuses, tolerance=tolerance), tv=0.02)
    assert (result.summary.law is Verdict.FAIL) is reuses


class Slow(Engine):
    def sample(self, prompt, n, max_new_tokens, sampling, seed):
        drawn = super().sample(prompt, n, max_new_tokens, sampling, seed)
        return Completions(tokens=drawn.tokens, passes=np.full(n, max_new_tokens))


class Wild(Engine):
    def sample(self, prompt, n, max_new_tokens, sampling, seed):
        return Completions(tokens=np.full((n, max_new_tokens), 99))


class Short(Engine):
    def sample(self, prompt, n, max_new_tokens, sampling, seed):
        return Completions(tokens=np.zeros((n, max_new_tokens - 1), dtype=np.int64))


class Blind(Engine):
    def reference(self):
        return None


def test_a_draft_that_is_never_accepted_is_a_finding(small_audit) -> None:
    result = small_audit(Slow())
    assert result.verdict is Verdict.PASS
    assert result.summary.efficiency is Verdict.FAIL
    assert [finding.code for finding in result.summary.findings] == ["no-speculation"]


@pytest.mark.parametrize(
    ("engine", "text"), [(Wild(), "emitted id 99 outside [0, 12)"), (Short(), "asked for (2, 12)")]
)
def test_nonsense_is_an_error_with_its_input(small_audit, engine, text) -> None:
    result = small_audit(engine)
    assert result.verdict is Verdict.ERROR
    assert text in result.summary.headline
    (check,) = (c for c in result.checks if c.verdict is Verdict.ERROR)
    assert check.case["prompt"]


def test_an_engine_without_a_law_is_refused(small_audit) -> None:
    with pytest.raises(InvalidInputError, match="no target law"):
        small_audit(Blind())


class Verified(Engine):
    """Blocks of the two tables, verified by a member of the zoo."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._verify = ZOO[name].callable

    def sample(self, prompt, n, max_new_tokens, sampling, seed):
        rng = np.random.default_rng(seed)
        texts = [self._text(prompt[-1], max_new_tokens, sampling, rng) for _ in range(n)]
        return Completions(tokens=np.array(texts, dtype=np.int64))

    def _text(self, last, length, sampling, rng):
        text: list[int] = []
        while len(text) < length:
            contexts, drafts = [last], []
            for _ in range(GAMMA):
                law = warp_probs(DRAFT.table[contexts[-1]], sampling)
                drafts.append(int(rng.choice(12, p=law)))
                contexts.append(drafts[-1])
            target = warp_probs(TARGET.table[contexts], sampling)
            draft = warp_probs(DRAFT.table[contexts[:-1]], sampling)
            emitted, _ = self._verify(target, draft, np.array(drafts), rng)
            text += [int(token) for token in emitted]
            last = text[-1]
        return text[:length]


@pytest.mark.parametrize("name", ["resample_from_target", "abs_residual"])
def test_a_known_bug_of_an_engine_is_named(small_audit, name) -> None:
    result = small_audit(Verified(name))
    assert result.verdict is Verdict.FAIL
    named = [c.diagnosis.consistent_with for c in result.checks if c.diagnosis is not None]
    assert name in named
    told = {c.params["tier"] for c in result.checks if c.name.startswith("token[")}
    assert told <= {"tokens with both laws", "tokens with the target's law"}
