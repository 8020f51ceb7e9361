"""What the scripts in ``simulations/`` share: their command line and the layout of their JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specverify.errors import InvalidInputError

__all__ = ["Study", "study_main", "write_study"]


@dataclass(frozen=True, kw_only=True)
class Study:
    """What a study found.

    Attributes:
        title: One line.
        parameters: What all rows have in common, seed included.
        columns: What each key of a row means, with its unit.
        rows: Flat records; an interval is a pair of keys ending in ``_low`` and ``_high``.
    """

    title: str
    parameters: Mapping[str, Any]
    columns: Mapping[str, str]
    rows: Sequence[Mapping[str, Any]]

    def __post_init__(self) -> None:
        for row in self.rows:
            if row.keys() != self.columns.keys():
                odd = sorted(row.keys() ^ self.columns.keys())
                raise InvalidInputError("rows", f"do not fit the columns: {', '.join(odd)}")


def study_main(
    script: str, make: Callable[[bool], Study], arguments: Sequence[str] | None = None
) -> None:
    """Run a study as ``python simulations/NAME.py [--quick] [OUTPUT.json]``.

    Args:
        script: The script's ``__file__``; it names the study and the default output,
            ``reports/NAME.json`` beside the script's folder.
        make: Runs the study; told whether to be quick, for tests.
        arguments: The command line's; those of the process by default.
    """
    path = Path(script).resolve()
    parser = argparse.ArgumentParser(prog=path.name)
    parser.add_argument("--quick", action="store_true", help="fewer runs, for tests")
    parser.add_argument(
        "output",
        type=Path,
        nargs="?",
        default=path.parent.parent / "reports" / f"{path.stem}.json",
        help="where the JSON goes (default: reports/)",
    )
    options = parser.parse_args(arguments)
    study = make(options.quick)
    write_study(options.output, path.stem, study, quick=options.quick)
    print(f"wrote {options.output} ({len(study.rows)} rows)")


def write_study(
    output: Path, name: str, study: Study, *, script: str | None = None, quick: bool = False
) -> None:
    """Write a study; the same study gives the same bytes.

    Args:
        output: The JSON file.
        name: Name of the study.
        study: What was found.
        script: Name of the script in ``simulations/``, where it is not that of the study.
        quick: Whether the study was quick.
    """
    content = {
        "study": name,
        "title": study.title,
        "command": f"python simulations/{script or name}.py" + (" --quick" if quick else ""),
        "parameters": dict(study.parameters),
        "columns": dict(study.columns),
        "rows": [{key: row[key] for key in study.columns} for row in study.rows],
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
