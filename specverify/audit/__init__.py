"""Plan, run, verdict."""
