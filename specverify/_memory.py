"""Memory that is freed and asked for again all the time."""

from __future__ import annotations

from functools import cache

import numpy as np

__all__ = ["keep_freed_memory"]

# Above the arrays of any vocabulary in use, and the most that glibc takes as a hint.
_HINT = 1 << 24


@cache
def keep_freed_memory() -> None:
    """Let the C library keep what large temporary arrays free, once in a process.

    glibc gives blocks above a threshold back to the system at once, and every page of the next
    array of that size is a fault, which costs bets on a vocabulary of 50,257 dearly. Its
    threshold follows the largest block that was ever freed, so one that nobody touches will do.
    Other C libraries take no notice, nor does glibc where MALLOC_TRIM_THRESHOLD_ is set.

    References:
        mallopt(3), M_MMAP_THRESHOLD, on the dynamic threshold.
    """
    np.empty(_HINT, dtype=np.uint8)
