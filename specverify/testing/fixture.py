"""What the fixture ``specverify`` hands to a test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from specverify.testing.lossless import LosslessReport, check_lossless
from specverify.testing.options import Options
from specverify.testing.session import SharedSession

__all__ = ["SpecVerify"]


class SpecVerify:
    """The suite with the options of the pytest run.

    Args:
        session: Options and the level that all tests share.
    """

    def __init__(self, session: SharedSession) -> None:
        self._session = session

    def assert_lossless(self, verify: Callable[..., Any], **settings: Any) -> LosslessReport:
        """As :func:`specverify.testing.assert_lossless`, at this test's share of the level.

        Args:
            verify: The implementation.
            settings: As for :func:`specverify.testing.assert_lossless`; ``false_alarm`` is the
                run's own.

        Raises:
            NotLosslessError: If the emitted law is not the target's.
            InconclusiveError: If the budget ended first.
        """
        __tracebackhide__ = True
        settings.setdefault("budget", self._session.budget)
        options = Options(**settings)
        return check_lossless(verify, options, self._session.next_level)
