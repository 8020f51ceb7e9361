"""vLLM's rejection samplers: told when missing, and run where their wheel is installed."""

from __future__ import annotations

import importlib.util
import math
import sys
from typing import Any

import numpy as np
import pytest
import torch

from specverify.adapters.vllm import VllmRejectionSampler, drawn
from specverify.adapters.vllm_files import launcher, stand_ins
from specverify.adapters.vllm_loop import VllmLoopV2
from specverify.adapters.vllm_v2 import VllmRejectionSamplerV2
from specverify.audit.forms import Form
from specverify.audit.targets import resolve
from specverify.errors import InvalidInputError, MissingDependencyError, SpecVerifyError
from specverify.exact.blocks import exact_verify_tv
from specverify.exact.law import enumerate_law

SAMPLERS = (VllmRejectionSampler, VllmRejectionSamplerV2)


@pytest.mark.parametrize("sampler", [*SAMPLERS, VllmLoopV2])
def test_a_missing_package_is_named(sampler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(MissingDependencyError, match=r"specdec-verify\[vllm\]"):
        sampler()


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("setting", [{"method": "exact"}, {"drafts": "none"}])
def test_settings_are_checked(sampler: Any, setting: dict[str, str]) -> None:
    with pytest.raises(InvalidInputError, match="must be"):
        sampler(**setting)


@pytest.mark.parametrize("name", ["vllm-rejection-sampler", "vllm-rejection-sampler-v2"])
def test_settings_follow_the_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(InvalidInputError, match=r"must be one of .*'nonsense'"):
        resolve(f"{name}:method=nonsense")
    with pytest.raises(InvalidInputError, match="has no setting 'methods'"):
        resolve(f"{name}:methods=fly")


def test_a_name_that_is_a_function_takes_no_settings() -> None:
    with pytest.raises(InvalidInputError, match="takes no settings as verify"):
        resolve("reference:gamma=3", form=Form.VERIFY)


def test_stand_ins_are_not_left_behind() -> None:
    before, finders = set(sys.modules), list(sys.meta_path)
    with stand_ins():
        pass
    assert sys.meta_path == finders
    assert not [name for name in set(sys.modules) - before if name.startswith("vllm")]


def test_the_launcher_hands_over_what_the_kernel_calls_a_pointer() -> None:
    seen = []

    class Kernel:
        arg_names = ("x_ptr", "n", "BLOCK")

        def __getitem__(self, grid):  # type: ignore[no-untyped-def]
            return lambda **given: seen.append((grid, given))

    launch = launcher(Kernel())(lambda x, *, n: ((len(x),), {"BLOCK": 8}))
    launch([1, 2], n=3)
    assert seen == [((2,), {"x_ptr": [1, 2], "n": 3, "BLOCK": 8})]


@pytest.mark.parametrize("swapped", [False, True])
def test_tokens_of_long_rows_are_drawn_from_their_law(swapped: bool) -> None:
    # Pearson's chi-square over 40 cells: false alarms below 1e-6 without, a sure find with a swap.
    torch.manual_seed(11)
    row = torch.zeros(5001)
    ids = torch.randperm(5001)[:40]
    row[ids] = torch.rand(40) + 0.5
    row /= row.sum()
    n = 20_000
    tokens = torch.cat([drawn(row.expand(1000, -1)) for _ in range(n // 1000)])
    expected = n * (row[ids.flip(0)] if swapped else row[ids]).double()
    found = (tokens == ids).sum(0)
    statistic = float(((found - expected) ** 2 / expected).sum())
    assert found.sum() == n
    assert (statistic < 105) is not swapped  # chi-square of 39 degrees: 1e-7 beyond


# --- with the wheel

needs_vllm = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None or importlib.util.find_spec("triton") is None,
    reason="vLLM's wheel comes with `make engines`",
)

LOSSLESS: dict[str, Any] = {
    "v1": lambda: VllmRejectionSampler(),
    "v1-given": lambda: VllmRejectionSampler(drafts="given"),
    "v1-greedy": lambda: VllmRejectionSampler(greedy=True),
    "v2": lambda: VllmRejectionSamplerV2(),
    "v2-block": lambda: VllmRejectionSamplerV2(method="block"),
    "v2-given": lambda: VllmRejectionSamplerV2(drafts="given"),
    "v2-block-given": lambda: VllmRejectionSamplerV2(method="block", drafts="given"),
    "v2-greedy": lambda: VllmRejectionSamplerV2(greedy=True),
}
LOSSY: dict[str, Any] = {
    "v1-synthetic": lambda: VllmRejectionSampler(method="synthetic"),
    "v1-fly": lambda: VllmRejectionSampler(method="fly"),
    "v2-synthetic": lambda: VllmRejectionSamplerV2(method="synthetic"),
    "v2-fly": lambda: VllmRejectionSamplerV2(method="fly"),
}
TARGET = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.25, 0.15, 0.6]], dtype=np.float32)
DRAFT = np.array([[0.2, 0.3, 0.5], [0.4, 0.3, 0.3]], dtype=np.float32)


def _tv(sampler: Any, target: Any) -> Any:
    rows = torch.from_numpy(target), torch.from_numpy(DRAFT)
    return exact_verify_tv(sampler, *rows, form="batched")


@needs_vllm
@pytest.mark.parametrize("name", LOSSLESS)
def test_lossless_methods_have_the_targets_law_exactly(name: str) -> None:
    assert _tv(LOSSLESS[name](), TARGET).high < 1e-6


@needs_vllm
@pytest.mark.parametrize("name", LOSSY)
def test_lossy_methods_have_another_law(name: str) -> None:
    assert _tv(LOSSY[name](), TARGET).low > 1e-3


@needs_vllm
@pytest.mark.parametrize("name", ["v1-greedy", "v2-greedy"])
def test_greedy_requests_emit_the_likeliest_tokens(name: str) -> None:
    sampler, certain = LOSSLESS[name](), np.eye(3, dtype=np.float32)[[2, 0, 1]]
    assert _tv(sampler, certain).high < 1e-6
    rows = torch.from_numpy(certain).repeat(3, 1, 1), torch.from_numpy(DRAFT).repeat(3, 1, 1)
    emitted = sampler(*rows, torch.tensor([[2, 0], [2, 1], [1, 0]]))
    assert emitted.tolist() == [[2, 0, 1], [2, 0, -1], [2, -1, -1]]


@needs_vllm
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_equal_rows_accept_every_draft(sampler: Any) -> None:
    rows = torch.from_numpy(TARGET)[None]
    emitted = sampler()(rows, rows[:, :-1], torch.tensor([[2, 0]]))
    assert emitted[0, :2].tolist() == [2, 0]
    assert emitted[0, 2] >= 0


@needs_vllm
@pytest.mark.parametrize("name", [*LOSSLESS, *LOSSY])
def test_tritons_interpreter_emits_the_same(name: str) -> None:
    torch.manual_seed(1)
    sampler = (LOSSLESS | LOSSY)[name]()
    for vocab in (3, 7, 40):  # each is a shape of its own, whose first calls are compared
        target = torch.softmax(torch.randn(4, 4, vocab), dim=-1)
        draft = torch.softmax(torch.randn(4, 3, vocab), dim=-1)
        drafts = torch.multinomial(draft.reshape(-1, vocab), 1).reshape(4, 3)
        for _ in range(2):
            assert sampler(target, draft, drafts).shape == (4, 4)


def _loop_tv(loop: Any) -> float:
    """Distance of two tokens of a loop, gamma 1, from the target's."""
    target = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.25, 0.15, 0.6]])
    draft = torch.tensor([[0.2, 0.2, 0.6], [0.8, 0.1, 0.1], [0.3, 0.3, 0.4]])
    steps = [lambda ids, rows=rows: rows[int(ids[-1])] for rows in (target, draft)]
    law = enumerate_law(lambda: loop(torch.tensor([1]), *steps, 1, 2)[0])
    assert law.complete
    excess = 0.0
    for text, mass in law.probabilities.items():
        trail = zip((1, *text), text, strict=False)
        excess += max(mass - math.prod(float(target[pair]) for pair in trail), 0.0)
    return excess


@needs_vllm
@pytest.mark.parametrize("method", ["standard", "block"])
def test_a_loop_over_keyed_noise_has_the_targets_law_exactly(method: str) -> None:
    assert _loop_tv(VllmLoopV2(method=method)) < 1e-6


@needs_vllm
def test_a_loop_tells_of_its_rounds() -> None:
    torch.manual_seed(5)
    rows = torch.tensor([[0.5, 0.3, 0.2]])
    tokens, rounds = VllmLoopV2()(torch.tensor([1]), lambda _: rows[0], lambda _: rows[0], 2, 6)
    # Equal laws: every draft is accepted, and three tokens come of a round.
    assert [entry["n_accepted"] for entry in rounds] == [2, 2]
    assert all(entry["emitted"][:2] == entry["proposed"] for entry in rounds)
    assert tokens.tolist() == [token for entry in rounds for token in entry["emitted"]]


class _Unsalted:
    """The drafting kernel without the salt that keeps its noise from the verification's."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        launch = self._kernel[grid]
        return lambda *args, **more: launch(*args, **more | {"IS_DRAFTING": False})


@needs_vllm
def test_noise_that_drafts_share_with_corrections_is_found() -> None:
    loop = VllmLoopV2()
    loop._gumbel = _Unsalted(loop._gumbel)
    assert _loop_tv(loop) > 1e-3


@needs_vllm
def test_a_stand_in_that_differs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = VllmRejectionSampler()
    monkeypatch.setattr("specverify.adapters.vllm.plain_rows", lambda ids: ids.long() + 1)
    rows = torch.from_numpy(TARGET)[None]
    with pytest.raises(SpecVerifyError, match="Triton's interpreter"):
        sampler(rows, rows[:, :-1], torch.tensor([[2, 0]]))
