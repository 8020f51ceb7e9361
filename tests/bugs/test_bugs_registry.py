"""The zoo is whole, described, and grows by one file."""

from __future__ import annotations

import importlib
import sys

import pytest

from specverify.bugs import CONTROLS, LOSSY, ZOO, Effect, Kind
from specverify.bugs.registry import collect
from specverify.bugs.scenes import SCENES

EVERYTHING = [*ZOO.values(), *CONTROLS.values(), *LOSSY.values()]

ONE_FILE = """
from specverify.bugs.base import Bug, Kind, Stage
from specverify.bugs.staged import StagedVerifier

EXTRA = Bug(
    name={name!r},
    kind=Kind.VERIFY,
    stage=Stage.ACCEPT,
    mathematics="accept always",
    expected_check="first marginal",
    callable=StagedVerifier(accept=lambda target, draft: target * 0 + 1),
)
"""


def test_the_zoo_is_large_enough() -> None:
    assert len(ZOO) >= 40
    assert len(CONTROLS) >= 8
    assert {bug.kind for bug in ZOO.values()} == set(Kind)


def test_no_name_is_used_twice() -> None:
    assert len({bug.name for bug in EVERYTHING}) == len(EVERYTHING)


@pytest.mark.parametrize("bug", EVERYTHING, ids=str)
def test_every_entry_is_described(bug) -> None:
    assert bug.name == bug.name.lower()
    assert bug.name.isidentifier()
    assert bug.mathematics
    assert "\n" not in bug.mathematics
    assert bug.expected_check
    assert bug.reference
    assert bug.scene in SCENES or bug.kind in (Kind.BATCHED, Kind.COUNTER)


def test_controls_leave_the_law_alone() -> None:
    assert {bug.effect for bug in CONTROLS.values()} == {Effect.EFFICIENCY, Effect.NONE}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An importable catalog with one file in it."""
    folder = tmp_path / "planted_catalog"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "one.py").write_text(ONE_FILE.format(name="accept_always"))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [name for name in sys.modules if name.startswith("planted_catalog")]:
        del sys.modules[name]


def test_one_file_adds_a_bug(package) -> None:
    assert list(collect(importlib.import_module("planted_catalog"))) == ["accept_always"]


def test_two_bugs_of_one_name_are_refused(package) -> None:
    (package / "two.py").write_text(ONE_FILE.format(name="accept_always"))
    with pytest.raises(ValueError, match="accept_always"):
        collect(importlib.import_module("planted_catalog"))
