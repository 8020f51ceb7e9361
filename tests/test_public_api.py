"""The public face: what it exports, and that importing it stays light."""

from __future__ import annotations

import subprocess
import sys

import pytest

import specverify


def test_every_public_name_loads() -> None:
    assert specverify.__all__, "the stub lists no names"
    for name in specverify.__all__:
        assert getattr(specverify, name) is not None


@pytest.mark.parametrize("heavy", ["torch", "matplotlib", "transformers", "scipy", "msgspec"])
def test_import_stays_light(heavy: str) -> None:
    code = f"import sys, specverify; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("heavy", ["numpy", "scipy", "torch"])
def test_what_starts_the_workers_of_an_audit_is_light(heavy: str) -> None:
    """They load while everything else is imported; a slow import before would delay them."""
    modules = "specverify.cli.main, specverify.audit.run, specverify.audit.storage"
    code = f"import sys, {modules}; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
