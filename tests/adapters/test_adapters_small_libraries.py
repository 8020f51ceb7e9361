"""Small libraries' verifiers: told when missing; run where they are installed."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from specverify.adapters import small_libraries, small_loops
from specverify.adapters.step_models import StepRows
from specverify.audit.targets import resolve
from specverify.errors import MissingDependencyError

LIBRARIES = {
    "Flashspec": "flashspec",
    "FlashspecBatch": "flashspec",
    "Economize": "economize",
    "EconomizeBatch": "economize",
    "RotalabsAccel": "rotalabs_accel",
    "NaiveSpeculate": "naive_speculate",
    "Specdec": "specdec",
}
LOOPS = {"MiniInfer": "mini_infer", "SequentialSpeculativeDecoding": "seqspecdecod"}
TARGET = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.25, 0.15, 0.6]])


@pytest.mark.parametrize("name", [*LIBRARIES, *LOOPS])
def test_a_missing_library_is_named_when_it_is_loaded(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = (LIBRARIES | LOOPS)[name]
    file = "small_loops" if name in LOOPS else "small_libraries"
    for loaded in [m for m in sys.modules if m == module or m.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "meta_path", [])
    with pytest.raises(MissingDependencyError, match=r"specdec-verify\["):
        resolve(f"specverify.adapters.{file}:{name}")


def test_every_adapter_is_tested() -> None:
    assert set(LIBRARIES) == set(small_libraries.__all__)
    assert set(LOOPS) == set(small_loops.__all__)


@pytest.mark.parametrize("name", ["Flashspec", "Economize", "RotalabsAccel", "NaiveSpeculate"])
def test_equal_rows_accept_every_draft(name: str) -> None:
    pytest.importorskip(LIBRARIES[name], reason=f"{name}'s library comes with `make engines`")
    torch.manual_seed(3)
    drafts = torch.tensor([2, 0])
    emitted = getattr(small_libraries, name)()(TARGET, TARGET[:-1], drafts)
    ids = emitted[0] if isinstance(emitted, tuple) else emitted
    np.testing.assert_array_equal(ids[:2], drafts)
    assert len(ids) == 3


def test_blocks_are_padded_behind_their_last_token() -> None:
    drafts = torch.tensor([[4, 5], [6, 7], [8, 9]])
    emitted = small_libraries._padded(drafts, torch.tensor([0, 1, 2]), torch.tensor([1, 2, 3]))
    assert emitted.tolist() == [[1, -1, -1], [6, 2, -1], [8, 9, 3]]


def test_rows_of_a_text_come_from_its_prefixes() -> None:
    seen = []

    def step(ids: torch.Tensor) -> torch.Tensor:
        seen.append(ids.tolist())
        return TARGET[len(ids) - 1]

    rows = StepRows(step)
    logits = rows(torch.tensor([[1, 2, 0]]))
    torch.testing.assert_close(logits[0].exp(), TARGET)
    rows(torch.tensor([[1, 2]]))
    assert seen == [[1], [1, 2], [1, 2, 0]]
