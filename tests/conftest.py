"""Settings shared by all tests."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import settings

# Property tests are deterministic: a red run is red for everybody.
settings.register_profile("default", deadline=None, derandomize=True, max_examples=100)
settings.register_profile("thorough", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("SPECVERIFY_HYPOTHESIS", "default"))

# Begun in the background of a script, tests inherit that interrupts are ignored, and so would the
# audits that they start in order to interrupt them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Small tensors gain nothing from threads, and the machine has few cores."""
    import torch

    torch.set_num_threads(1)
