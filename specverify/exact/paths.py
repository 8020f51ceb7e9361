"""One path of the audited code: run under a tape, and run again to see that it is the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from specverify.errors import UnsupportedRandomness
from specverify.exact.interception import Session
from specverify.exact.lifting import LiftRequest
from specverify.exact.outcomes import as_mixture
from specverify.exact.tape import ReplayDivergence, Step, Tape, activate, refuse

__all__ = ["run_again", "run_path"]


def run_path(
    fn: Callable[[], Any],
    prefix: tuple[Step, ...],
    session: Session,
    finish: Callable[[Any], Any] = as_mixture,
) -> tuple[Tape, Any]:
    """Run one path: its tape, and its outcomes or the exception that it raised.

    Args:
        fn: The callable.
        prefix: Choices to replay; then the likeliest branch of each new one is taken.
        session: The interception in force.
        finish: Makes what ``fn`` returned an outcome, while the tape is still active.

    Returns:
        The tape, and what ``finish`` gave, or ``"Type: message"`` of the exception.

    Raises:
        UnsupportedRandomness: If the code does something that the tracer does not understand.
        ReplayDivergence: If the replayed choices are not asked for.
    """
    while True:
        tape = Tape(prefix)
        outer = activate(tape)
        result: Any
        try:
            session.begin_path()
            result = finish(fn())
        except LiftRequest:
            pass
        except (UnsupportedRandomness, ReplayDivergence) as error:
            raise tape.refusal or error from None
        except Exception as error:
            _refuse_our_own(error, session)
            result = f"{type(error).__name__}: {error}"
        finally:
            activate(outer)
        if tape.refusal is not None:
            raise tape.refusal
        if session.lifts.pending is not None:
            session.lifts.grant()
            continue
        if len(tape.steps) < len(prefix):
            raise ReplayDivergence(f"a path of {len(prefix)} choices ended after {len(tape.steps)}")
        return tape, result


def _refuse_our_own(error: Exception, session: Session) -> None:
    """An error that the real values would not have raised is not the audited code's."""
    text = f"{error}"
    ours = any(name in text for name in ("Symbolic", "UnreadToken", "dtype('O')", "_LiftedFloat"))
    if ours or (isinstance(error, TypeError) and session.lifts):
        refuse(f"an operation that raised {type(error).__name__}", text)


def run_again(fn: Callable[[], Any], tape: Tape, result: Any, session: Session) -> None:
    """Run a path a second time and compare.

    Raises:
        ReplayDivergence: If the outcome differs: the code keeps state, or draws unseen.
        UnsupportedRandomness: If a generator that is not traced advanced.
    """
    again, repeated = run_path(fn, tuple(tape.steps), session)
    if len(again.steps) != len(tape.steps) or repeated != result:
        session.check_untouched()
        raise ReplayDivergence(
            f"the same choices gave {result!r}, then {repeated!r}: the code keeps state, or draws "
            "from a source that is not intercepted"
        )
    if list(again.stream_states) != list(tape.stream_states):
        refuse("torch.Generator", "the code builds its own generator: its draws are constants")
