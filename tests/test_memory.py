"""Large temporary arrays cost page faults until the C library is told to keep their memory."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

# A fresh process: the hint holds for as long as a process lives.
PROGRAM = """
import resource
import numpy as np
from specverify._memory import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        below = np.ones(50257)
        above = below + below  # two arrays at once: one alone would be kept anyway
        del below, above
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

without = min(faults() for _ in range(3))
keep_freed_memory()
print(without, min(faults() for _ in range(3)))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a hint that glibc alone takes")
def test_arrays_of_a_vocabulary_are_kept() -> None:
    # A cluster of processes sets these for its workers, and leaves them behind in a test's process.
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=plain,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    without, kept = map(int, done.stdout.split())
    assert without > 20 * 90  # control: each array has 98 pages of 4 KiB
    assert kept < 20
