"""What a ledger is of: the audit whose shards it holds, told from every other."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Any

import msgspec

from specverify.audit.config import AuditConfig

__all__ = ["Header", "differences", "make_header", "settings_of"]

FORMAT = 1
_WITHOUT_INFLUENCE = frozenset({"workers", "isolation"})
# How long to go on, and when to give a call up, change no shard that was finished: an audit may be
# taken up again with a larger budget or a longer patience.
_LIMITS = frozenset({"budget", "time_limit", "memory_limit"})
_IDENTIFYING = ("name", "form", "framework", "version", "fingerprint")


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What the shards of a ledger depend on.

    Attributes:
        format: Version of the ledger's format.
        package: Version of this package.
        target: Name, form, framework, version and fingerprint of the implementation.
        settings: Settings that the samples or the verdict depend on.
        seed: Root seed.
    """

    format: int
    package: str
    target: dict[str, Any]
    settings: dict[str, Any]
    seed: int

    def key(self) -> str:
        """A file name that other audits do not have."""
        return hashlib.sha256(msgspec.msgpack.encode(self)).hexdigest()[:20]


def make_header(target: Mapping[str, Any], config: AuditConfig, seed: int) -> Header:
    """The header of an audit.

    Args:
        target: Record of the target, as ``result.json`` has it.
        config: Settings.
        seed: Root seed.
    """
    settings = settings_of(config)
    return Header(
        format=FORMAT,
        package=metadata.version("specdec-verify"),
        target={key: target.get(key) for key in _IDENTIFYING},
        settings={key: value for key, value in settings.items() if key not in _LIMITS},
        seed=seed,
    )


def settings_of(config: AuditConfig) -> dict[str, Any]:
    """Settings that a result depends on, JSON-compatible."""
    kept = [f.name for f in dataclasses.fields(config) if f.name not in _WITHOUT_INFLUENCE]
    # Through JSON and back: what a file gives back is equal, lists for tuples included.
    values: dict[str, Any] = msgspec.json.decode(
        msgspec.json.encode({name: getattr(config, name) for name in kept})
    )
    return values


def differences(there: Header, here: Header) -> list[str]:
    """What differs between two headers, in words; empty where nothing does."""
    old, new = (dict(_flat(msgspec.to_builtins(header))) for header in (there, here))
    return [
        _difference(name, old.get(name), new.get(name))
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]


def _difference(name: str, old: Any, new: Any) -> str:
    if name == "target.fingerprint.source":
        return "the implementation was edited"
    return f"{name.removeprefix('settings.')} is {new} here and {old} there"


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
