"""Plan, run, verdict: audits of implementations of speculative decoding."""
