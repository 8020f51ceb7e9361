"""llama.cpp's server with a draft model on a given port, until it is killed: PORT MODE."""

from __future__ import annotations

import signal
import sys

from specverify.adapters.llama_cpp import LlamaCppEngine

if __name__ == "__main__":
    engine = LlamaCppEngine(mode=sys.argv[2], port=int(sys.argv[1]))
    print(engine.address, flush=True)
    signal.pause()
