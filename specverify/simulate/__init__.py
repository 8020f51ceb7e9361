"""The simulator of rounds and timing."""
