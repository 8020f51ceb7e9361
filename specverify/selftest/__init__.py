"""Whether the suite, on this machine, still fails every known bug and passes every control."""
