"""The JSON Schema of ``result.json``, shipped beside the code that writes it."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import msgspec

from specverify.results import AuditResult

__all__ = ["make_schema", "shipped_schema"]

_FILE = "result.schema.json"


def make_schema() -> dict[str, Any]:
    """The schema of the result types as they are."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "specverify result"}
    # Through JSON and back: tuples become the lists that a file holds.
    schema: dict[str, Any] = json.loads(json.dumps(head | msgspec.json.schema(AuditResult)))
    return schema


def shipped_schema() -> dict[str, Any]:
    """The schema in the file ``result.schema.json`` of this package."""
    text = resources.files(__package__).joinpath(_FILE).read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
