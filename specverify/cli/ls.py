"""``specverify ls``: what can be named on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import typer

from specverify.cli.options import AsJson, UnusedSeed
from specverify.cli.shell import say, say_json, say_records
from specverify.errors import InvalidInputError

__all__ = ["ls"]

Records = list[dict[str, Any]]


def ls(
    what: Annotated[
        str | None, typer.Argument(help="targets, scenarios or models; all if not given.")
    ] = None,
    as_json: AsJson = False,
    seed: UnusedSeed = 0,
) -> None:
    """List named targets, scenarios and the shipped models."""
    if what is not None and what not in _LISTS:
        raise InvalidInputError("what", f"must be one of {', '.join(_LISTS)}; got {what!r}")
    wanted = {what: _LISTS[what]} if what else _LISTS
    found = {name: listed() for name, listed in wanted.items()}
    if as_json:
        say_json(found)
        return
    for place, (name, records) in enumerate(found.items()):
        if place:
            say("")
        say_records(records, title=name)


def _targets() -> Records:
    from specverify.audit.targets import registered

    return [
        {"target": name, "forms": [str(form) for form in forms]}
        for name, forms in registered().items()
    ]


def _scenarios() -> Records:
    from specverify.audit.forms import Form
    from specverify.audit.scenarios import scenarios

    listed = []
    for form in (Form.VERIFY, Form.DECODE):
        default = {scenario.name for scenario in scenarios(form)}
        for scenario in scenarios(form, "thorough"):
            suite = "default" if scenario.name in default else "thorough"
            listed.append({"form": str(form), "suite": suite, **scenario.params()})
    return listed


def _models() -> Records:
    from specverify.models.pairs import shipped_directory

    listed = []
    for config in sorted(shipped_directory().glob("*/config.json")):
        shape = json.loads(config.read_text("utf-8"))
        listed.append(
            {
                "model": config.parent.name,
                "layers": shape["n_layer"],
                "width": shape["n_embd"],
                "heads": shape["n_head"],
                "vocab_size": shape["vocab_size"],
                "context": shape["n_positions"],
            }
        )
    return listed


_LISTS: dict[str, Callable[[], Records]] = {
    "targets": _targets,
    "scenarios": _scenarios,
    "models": _models,
}
