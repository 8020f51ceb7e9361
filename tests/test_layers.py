"""Imports go downwards only, as ARCHITECTURE.md draws them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "specverify"

# From the ground up; names on one line are neighbours that may not import each other.
LAYERS = [
    {"results", "errors", "_arrays", "_memory"},
    {"distributions"},
    {"warping"},
    {"theory"},
    {"stats"},
    {"sampler"},
    {"models"},
    {"strategies"},
    {"simulate"},
    {"exact"},
    {"bugs"},
    {"audit"},
    {"adapters"},
    {"selftest"},
    {"testing"},
    {"report"},
    {"bench"},
    {"cli"},
    {"__main__"},
]
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}
GROUND = LAYERS[0]
HEAVY = {"torch", "matplotlib", "transformers", "hypothesis", "pytest"}


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_modules(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import, line {node.lineno}"
            module = node.module or ""
            yield module, node.lineno
            if module == "specverify":
                for alias in node.names:
                    yield f"specverify.{alias.name}", node.lineno


def upward_imports(source: str, part: str) -> list[str]:
    found = []
    for module, line in imported_modules(ast.parse(source)):
        parts = module.split(".")
        if parts[0] != "specverify":
            continue
        if len(parts) == 1:
            found.append(f"line {line}: imports the package's own flat face")
            continue
        other = parts[1]
        if other == part:
            continue
        allowed = HEIGHT[other] < HEIGHT[part] or (other in GROUND and part in GROUND)
        if not allowed:
            found.append(f"line {line}: {part} imports {other}")
    return found


MODULES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_downwards(path: Path) -> None:
    assert upward_imports(path.read_text(), part_of(path)) == []


def test_an_upward_import_is_seen() -> None:
    assert upward_imports("def f():\n    from specverify.cli import main", "theory")
    assert upward_imports("from specverify import audit", "theory")
    assert not upward_imports("from specverify.distributions import total_variation", "theory")


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_matplotlib_stays_in_report(path: Path) -> None:
    names = {name.partition(".")[0] for name, _ in imported_modules(ast.parse(path.read_text()))}
    assert "matplotlib" not in names or part_of(path) == "report"


def test_nothing_unpickles() -> None:
    pattern = re.compile(r"\bpickle\.loads?\(|allow_pickle=True|torch\.load\(")
    assert [p for p in MODULES if pattern.search(p.read_text())] == []
