"""vLLM's rejection sampler: told when missing, and run where its wheel is installed."""

from __future__ import annotations

import importlib.util
import sys

import pytest
import torch

from specverify.adapters.vllm import VllmRejectionSampler, _launcher, _stand_ins
from specverify.errors import MissingDependencyError


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(MissingDependencyError, match=r"specdec-verify\[vllm\]"):
        VllmRejectionSampler()


def test_stand_ins_are_not_left_behind() -> None:
    before, finders = set(sys.modules), list(sys.meta_path)
    with _stand_ins():
        pass
    assert sys.meta_path == finders
    assert not [name for name in set(sys.modules) - before if name.startswith("vllm")]


def test_the_launcher_hands_over_what_the_kernel_calls_a_pointer() -> None:
    seen = []

    class Kernel:
        arg_names = ("x_ptr", "n", "BLOCK")

        def __getitem__(self, grid):  # type: ignore[no-untyped-def]
            return lambda **given: seen.append((grid, given))

    launch = _launcher(Kernel())(lambda x, *, n: ((len(x),), {"BLOCK": 8}))
    launch([1, 2], n=3)
    assert seen == [((2,), {"x_ptr": [1, 2], "n": 3, "BLOCK": 8})]


@pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None, reason="vLLM's wheel comes with `make engines`"
)
def test_equal_rows_accept_every_draft() -> None:
    rows = torch.tensor([[[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.25, 0.15, 0.6]]])
    emitted = VllmRejectionSampler()(rows, rows[:, :-1], torch.tensor([[2, 0]]))
    assert emitted[0, :2].tolist() == [2, 0]
    assert emitted[0, 2] >= 0
