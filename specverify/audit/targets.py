"""From what a user writes to something that can be called."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from specverify.audit.fingerprint import fingerprint
from specverify.audit.forms import Form, Framework
from specverify.audit.signatures import (
    find_form,
    find_framework,
    find_generator,
    parameters_of,
    refuse_other_order,
)
from specverify.errors import InvalidInputError, MissingDependencyError, UnknownTargetError

__all__ = ["Target", "is_recording", "register", "registered", "resolve", "with_settings"]

_REFERENCE = {
    Form.VERIFY: "specverify.sampler.verify:speculative_verify",
    Form.BATCHED: "specverify.sampler.batched:verify_blocks",
    Form.DECODE: "specverify.sampler.decode:speculative_decode",
}
# Named adapters, loaded when they are asked for: the audit itself knows no engine. A distribution,
# this one or another, announces a name as an entry point of this group; loading it registers it.
_GROUP = "specverify.targets"
_REGISTRY: dict[str, dict[Form, str]] = {"reference": _REFERENCE}
_RECORDINGS = (".jsonl", ".parquet", ".npz")


@dataclass(frozen=True, kw_only=True)
class Target:
    """An implementation, and how to call it.

    Attributes:
        name: What the user wrote, or the callable's qualified name.
        form: How it is called.
        framework: Which arrays it takes.
        implementation: The function, or the engine.
        generator: Name of its generator parameter; ``"*"`` for the last positional one, None
            where it has none and draws from the global generators.
        spec: Text that :func:`resolve` turns into this target in another process; None for a
            callable that was passed in.
    """

    name: str
    form: Form
    framework: Framework
    implementation: Any
    generator: str | None
    spec: str | None = None

    def describe(self) -> dict[str, Any]:
        """Record for ``result.json``."""
        module = sys.modules.get(getattr(self.implementation, "__module__", None) or "")
        package = (getattr(module, "__name__", "") or "").partition(".")[0]
        version = getattr(sys.modules.get(package), "__version__", None)
        record: dict[str, Any] = {
            "name": self.name,
            "form": str(self.form),
            "framework": str(self.framework),
            "version": None if version is None else str(version),
            "spec": self.spec,
            "fingerprint": fingerprint(self.implementation),
        }
        if self.form is Form.GENERATE:
            info = self.implementation.describe()
            record |= {"version": info.version, "engine": info.name, "randomness": info.randomness}
            record |= {"declared": info.declared, "details": info.details}
            record |= {"tolerance": info.tolerance, "quick": info.quick}
            record |= {} if info.longest is None else {"longest": info.longest}
            record |= {"traceable": hasattr(self.implementation, "smallest")}
            if hasattr(self.implementation, "recordings"):
                record["recorded"] = [r.describe() for r in self.implementation.recordings]
        return record


def register(name: str, form: Form, where: str) -> None:
    """Give an adapter a name.

    Args:
        name: Name that users write.
        form: Form of the thing at ``where``.
        where: ``module:attribute``, imported when first used; for ``generate`` a class or
            function without arguments that returns the engine.
    """
    _REGISTRY.setdefault(name, {})[form] = where


def registered() -> dict[str, tuple[Form, ...]]:
    """Names that :func:`resolve` knows, and the forms of each."""
    for entry in metadata.entry_points(group=_GROUP):
        entry.load()
    return {name: tuple(forms) for name, forms in sorted(_REGISTRY.items())}


def resolve(target: Any, *, form: Form | None = None, framework: Framework | None = None) -> Target:
    """Find an implementation and how to call it.

    Args:
        target: A registered name, with settings of an engine or class after a colon
            (``llama-cpp:mode=probabilistic,gamma=3``), the address of a completion server or a file
            of recorded completions, with settings after ``#``, ``module:function``,
            ``path/file.py:function``, a callable or an engine.
        form: How it is called; from its signature when None.
        framework: Which arrays it takes; from its annotations and imports when None.

    Raises:
        UnknownTargetError: If there is no such file, module or attribute.
        InvalidInputError: If the form cannot be told.
    """
    if not isinstance(target, str):
        name = getattr(target, "__qualname__", type(target).__qualname__)
        return _describe(target, name, None, form, framework)
    name, settings = _settings(target)
    for entry in metadata.entry_points(group=_GROUP, name=name):
        entry.load()
    forms = _REGISTRY.get(name)
    if forms is None:
        return _describe(_load(target), target, target, form, framework)
    engine = bool(settings) and Form.GENERATE in forms
    chosen = form or (Form.GENERATE if engine else next(iter(forms)))
    if chosen not in forms:
        known = ", ".join(forms)
        raise InvalidInputError("form", f"{name} is audited as {known}; not as {chosen}")
    implementation = _load(forms[chosen])
    if chosen is Form.GENERATE or (settings and inspect.isclass(implementation)):
        implementation = _start(implementation, name, settings)
    elif settings:
        raise InvalidInputError("target", f"{name} takes no settings as {chosen}; got {target!r}")
    return _describe(implementation, target, target, chosen, framework)


def with_settings(target: str, settings: Sequence[str]) -> str:
    """A target with more settings in its own notation.

    Args:
        target: An engine's name, a server's address or a file of recorded completions.
        settings: ``key=value`` texts.

    Raises:
        InvalidInputError: If one is no ``key=value``.
    """
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not (key.isidentifier() and equals and value) or "," in value:
            raise InvalidInputError("set", f"must look like gamma=4, got {setting!r}")
    if not settings:
        return target
    place = target.startswith(("http://", "https://")) or is_recording(target)
    mark = "#" if place else ":"
    return f"{target}{',' if mark in target else mark}{','.join(settings)}"


def is_recording(target: Any) -> bool:
    """Whether a target is a file of recorded completions: data, and no code that could crash."""
    return isinstance(target, str) and target.partition("#")[0].endswith(_RECORDINGS)


def _settings(target: str) -> tuple[str, dict[str, Any]]:
    """Name and settings of what a user writes.

    ``llama-cpp:mode=probabilistic,gamma=3``, ``http://host#gamma=3``, ``samples.jsonl#gamma=3``.
    """
    place, _, fragment = target.partition("#")
    settings = [part.partition("=") for part in fragment.split(",") if part]
    given = {key: _value(value) for key, _, value in settings}
    if target.startswith(("http://", "https://")):
        # A fragment never leaves this machine: what the server is asked holds no setting of ours.
        return "http", {"url": place} | given
    if is_recording(target):
        return "samples", {"path": place} | given
    name, colon, text = target.partition(":")
    parts = [part.partition("=") for part in text.split(",")]
    if not colon or not all(key.isidentifier() and equals for key, equals, _ in parts):
        return target, {}
    return name, {key: _value(value) for key, _, value in parts}


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False, "none": None}.get(text, text)


def _start(factory: Callable[..., Any], name: str, settings: dict[str, Any]) -> Any:
    known = parameters_of(factory)
    for key in settings:
        if key not in known:
            hint = _suggest(key, list(known))
            raise InvalidInputError(
                "target", f"{name} has no setting {key!r}, only {', '.join(known)}{hint}"
            )
    return factory(**settings)


def _describe(
    implementation: Any,
    name: str,
    spec: str | None,
    form: Form | None,
    framework: Framework | None,
) -> Target:
    if inspect.isclass(implementation):
        implementation = _instance(implementation, name)
    engine = any(hasattr(implementation, one) for one in ("sample", "recordings"))
    if not callable(implementation) and not engine:
        kind = type(implementation).__name__
        raise UnknownTargetError("target", f"{name} is not callable, but of type {kind}")
    chosen = form or find_form(implementation, name)
    if chosen is Form.GENERATE:
        return Target(
            name=name,
            form=chosen,
            framework=framework or Framework.NUMPY,
            implementation=implementation,
            generator=None,
            spec=spec,
        )
    if not callable(implementation):
        raise UnknownTargetError("target", f"{name} is not callable")
    refuse_other_order(implementation, chosen)
    return Target(
        name=name,
        form=chosen,
        framework=framework or find_framework(implementation),
        implementation=implementation,
        generator=find_generator(implementation, 3 if chosen is not Form.DECODE else 5),
        spec=spec,
    )


def _load(text: str) -> Any:
    where, colon, attribute = text.rpartition(":")
    if Path(text).suffix == ".py" or Path(text).is_dir():
        raise UnknownTargetError("target", f"{text} names no function: write path/file.py:function")
    if not colon or not where or not attribute:
        raise UnknownTargetError(
            "target",
            f"{text!r} is neither module:function, path/file.py:function nor one of "
            f"{', '.join(registered())}{_suggest(text, list(registered()))}",
        )
    module = _load_file(Path(where)) if where.endswith(".py") else _load_module(where)
    found = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            names = [n for n in dir(found) if not n.startswith("_")]
            raise UnknownTargetError("target", f"{where} has no {part!r}{_suggest(part, names)}")
        if inspect.isclass(found) and inspect.isfunction(inspect.getattr_static(found, part)):
            found = _instance(found, text)  # a method of an object, not of the class
        found = getattr(found, part)
    return found


def _instance(kind: type, name: str) -> Any:
    """An object of a class that needs no arguments."""
    needed = [
        parameter
        for parameter, p in parameters_of(kind).items()
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if needed:
        raise UnknownTargetError(
            "target",
            f"{name}: {kind.__name__} cannot be made without {', '.join(needed)}; name a function, "
            "or an object that the module makes",
        )
    return kind()


def _load_file(path: Path) -> Any:
    if not path.is_file():
        near = [p.name for p in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise UnknownTargetError("target", f"no such file: {path}{_suggest(path.name, near)}")
    name = f"_specverify_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickling look their module up by name.
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UnknownTargetError("target", f"{path} cannot be imported: {_say(error)}") from error
    finally:
        sys.path.remove(str(path.parent.resolve()))
    return module


def _load_module(name: str) -> Any:
    # A user's module lies where the command was started, not where the command is installed.
    here = str(Path.cwd())
    added = here not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except MissingDependencyError:
        raise
    except Exception as error:
        raise UnknownTargetError("target", f"cannot import {name}: {_say(error)}") from error
    finally:
        if added:
            sys.path.remove(here)


def _suggest(text: str, names: list[str]) -> str:
    close = difflib.get_close_matches(text, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _say(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
