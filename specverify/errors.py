"""The exceptions of the suite.

::

    SpecVerifyError
    ├── InvalidInputError(ValueError)       the caller's mistake: argument and value
    │   └── UnknownTargetError              a file, module, model, ... not there
    ├── MissingDependencyError(ImportError) an optional extra is needed; says the install command
    ├── ImplementationError                 the audited code misbehaved; carries its input
    │   ├── ImplementationRaisedError       it raised
    │   ├── InvalidEmissionError            wrong number, type or range of tokens
    │   ├── InputMutatedError               it wrote into its arguments
    │   └── ImplementationTimeoutError      it did not come back in time
    └── UnsupportedRandomness               the exact tracer met a draw it does not understand

A user's mistake ends a command with exit code 2; an ``ImplementationError`` is a verdict of the
audit (``error``) and never the suite's own crash.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "ImplementationError",
    "ImplementationRaisedError",
    "ImplementationTimeoutError",
    "InputMutatedError",
    "InvalidEmissionError",
    "InvalidInputError",
    "MissingDependencyError",
    "SpecVerifyError",
    "UnknownTargetError",
    "UnsupportedRandomness",
]


class SpecVerifyError(Exception):
    """Base of everything that the suite raises on purpose."""


class InvalidInputError(SpecVerifyError, ValueError):
    """An argument is unusable.

    Args:
        argument: Name of the argument, as the caller wrote it.
        problem: What is wrong, value included, e.g. ``"must be at least 1, got 0"``.
    """

    def __init__(self, argument: str, problem: str) -> None:
        super().__init__(f"{argument}: {problem}")
        self.argument = argument
        self.problem = problem

    def __reduce__(self) -> tuple[Any, ...]:
        # Two constructor arguments, one message: the default pickling of exceptions would lose one.
        return type(self), (self.argument, self.problem)


class UnknownTargetError(InvalidInputError):
    """The thing to audit, load or run does not exist or cannot be imported."""


class MissingDependencyError(SpecVerifyError, ImportError):
    """An optional dependency is missing.

    Args:
        package: The module that failed to import.
        extra: The extra of this distribution that brings it.
    """

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"{package} is not installed; install it with: pip install 'specdec-verify[{extra}]'"
        )
        self.package = package
        self.extra = extra

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.package, self.extra)


class ImplementationError(SpecVerifyError):
    """The implementation under audit misbehaved.

    Args:
        message: What happened.
        case: The input that did it (JSON-compatible), kept so that it can be replayed.
    """

    def __init__(self, message: str, case: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.case: dict[str, Any] = case or {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.case)


class ImplementationRaisedError(ImplementationError):
    """The implementation raised an exception."""


class InvalidEmissionError(ImplementationError):
    """The implementation returned too many, too few or out-of-range tokens, or none at all."""


class InputMutatedError(ImplementationError):
    """The implementation wrote into an array that it was handed."""


class ImplementationTimeoutError(ImplementationError):
    """The implementation did not return within its time limit."""


class UnsupportedRandomness(SpecVerifyError):
    """The exact tracer met a random operation that it does not understand.

    Args:
        operation: Name of the operation.
        location: ``file:line`` of the call in the audited code.
        reason: Why it is refused.
    """

    def __init__(self, operation: str, location: str, reason: str) -> None:
        super().__init__(f"{operation} at {location}: {reason}")
        self.operation = operation
        self.location = location
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.operation, self.location, self.reason)
