"""What the tests of one pytest run share: options, the false-alarm level, the record of checks.

Imports nothing heavy: the plugin loads it in every pytest run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["FALSE_ALARM", "SharedSession", "active_session", "enter", "leave"]

FALSE_ALARM = 1e-6
"""Probability that a correct implementation fails, over everything that shares it."""


@dataclass(kw_only=True)
class SharedSession:
    """Options of a pytest run, and the level that its tests share.

    Attributes:
        false_alarm: Probability that any correct implementation fails, over the whole run.
        budget: The most that one check may spend, e.g. ``"60s"`` or ``"200k"``; None for no limit.
        items: Collected tests that may spend a part of the level.
        entries: Records of the checks of the test in progress.
    """

    false_alarm: float = FALSE_ALARM
    budget: str | None = None
    items: int = 1
    entries: list[dict[str, Any]] = field(default_factory=list)
    _spent: int = 0

    def begin_test(self) -> None:
        """A test starts with its own share and no records."""
        self.entries = []
        self._spent = 0

    def next_level(self) -> float:
        """Level of the next statistical audit of the test in progress.

        Tests share the level equally. The k-th audit of a test has ``share / (k (k + 1))``: these
        sum to the share, however many there are.
        """
        self._spent += 1
        return self.false_alarm / max(1, self.items) / (self._spent * (self._spent + 1))


# A stack: pytest may run inside pytest.
_sessions: list[SharedSession] = []


def active_session() -> SharedSession | None:
    """The innermost pytest run in this process, if any has the plugin."""
    return _sessions[-1] if _sessions else None


def enter(session: SharedSession) -> None:
    """A pytest run begins."""
    _sessions.append(session)


def leave(session: SharedSession) -> None:
    """A pytest run ends."""
    if session in _sessions:
        _sessions.remove(session)
